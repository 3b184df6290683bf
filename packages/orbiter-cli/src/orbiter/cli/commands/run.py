"""`orbiter run`: one question, one answer."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.input import given_or_read
from orbiter.cli.ui.options import AgentName, AsJson, Model, Seconds, TraceFile
from orbiter.cli.ui.outcome import ExitCode, UsageError, cut_short, ends
from orbiter.cli.ui.sentences import os_sentence
from orbiter.cli.ui.text import plain

if TYPE_CHECKING:
    from orbiter import Agent, Swarm
    from orbiter.types import Message, RunResult


@ends
def run(
    agent: AgentName,
    input: Annotated[
        str | None,
        typer.Argument(metavar="[INPUT]", help="What to say. - or nothing reads it from stdin."),
    ] = None,
    model: Model = None,
    timeout: Seconds = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="Tokens a run may take.", min=1, show_default=False),
    ] = None,
    trace: TraceFile = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the answer only, not what it does.")
    ] = False,
    as_json: AsJson = False,
    events: Annotated[
        bool, typer.Option("--events", help="Print every event as a line of JSON, as it comes.")
    ] = False,
) -> int:
    """Ask an agent. Its answer appears on standard output as it is written."""
    import asyncio

    from orbiter.cli.agent.loading import load_agent

    loaded = load_agent(agent, model=model)
    text = given_or_read(input, "the input")

    async def main() -> "RunResult":
        from orbiter.config import TaskConfig

        limits = TaskConfig(timeout=timeout, total_tokens=max_tokens)
        how = "events" if events else "json" if as_json else "quiet" if quiet else "text"
        with tracing(trace):
            async with loaded as target:
                return await ask(target, text, how=how, config=limits)

    result = asyncio.run(main())
    if result.stop_reason == "input_required":
        from orbiter.approval import describe

        for request in result.requests:
            sys.stderr.write(f"waits for a person: {plain(describe(request))}\n")
        sys.stderr.write("answer it in a conversation: orbiter chat\n")
        return ExitCode.WAITING
    if result.stop_reason != "completed":
        cut = cut_short(result.stop_reason)
        calls = f"{result.steps} model call{'' if result.steps == 1 else 's'}"
        why = f" ({cut})" if cut else ""
        sys.stderr.write(f"stopped: {result.stop_reason} after {calls}{why}\n")
        return ExitCode.STOPPED
    return ExitCode.OK


async def ask(
    target: "Agent | Swarm",
    text: str,
    *,
    how: str,
    messages: "list[Message] | tuple[()]" = (),
    **options: Any,
) -> "RunResult":
    """Run a target and show what comes.

    Args:
        target: Whom to ask.
        text: What to say.
        how: "text", "quiet", "json" (the result) or "events" (all, a line each).
        messages: The conversation before.
        options: For `run.stream`.

    Raises:
        OrbiterError: The run failed.
    """
    from orbiter import run
    from orbiter.cli.ui.terminal import Terminal, print_json, result_json

    terminal = Terminal(quiet=how == "quiet")
    result: RunResult | None = None
    try:
        async with run.stream(target, text, messages=messages, **options) as stream:
            async for event in stream:
                if event.type == "result":
                    result = event.result
                if how == "events":
                    print_json(event.model_dump(mode="json", warnings=False))
                elif how != "json":
                    terminal.show(event)
    finally:
        terminal.end()
    if result is None:
        raise AssertionError("a run that ends without an error has a result")
    if how == "json":
        print_json(result_json(result))
    return result


def tracing(to: str | None) -> AbstractContextManager[Any]:
    """Trace all runs inside the block, if it is said where to.

    Args:
        to: A file, or "otlp" for the receiver that OpenTelemetry's environment variables name.

    Raises:
        OrbiterError: orbiter-trace or its extra is not installed, or nothing can be traced there.
    """
    if to is None:
        return nullcontext()
    if to != "otlp" and not to.endswith(".jsonl"):
        raise UsageError(f"--trace {to}: name a file that ends in .jsonl, or otlp")
    from orbiter.trace import TraceConfig, tracing

    if to == "otlp":
        import logging

        # what orbiter.trace says of lost spans is enough: the SDK repeats it at each try
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    return _to_file(to, tracing(TraceConfig(exporters=(to,))))


@contextmanager
def _to_file(file: str, traced: AbstractContextManager[Any]) -> Iterator[None]:
    """Trace to a file; that it cannot be written is the option's mistake."""
    with ExitStack() as stack:
        try:
            stack.enter_context(traced)
        except OSError as error:
            raise UsageError(f"--trace {os_sentence(error)}") from error
        yield
