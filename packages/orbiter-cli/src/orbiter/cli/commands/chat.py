"""`orbiter chat`: a conversation at the terminal, or line by line through a pipe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.agent.asking import Asking
from orbiter.cli.commands.run import ask, tracing
from orbiter.cli.ui.files import check_writable
from orbiter.cli.ui.options import AgentName, AsJson, Model, TraceFile
from orbiter.cli.ui.outcome import ExitCode, UsageError, cut_short, ends, tell
from orbiter.cli.ui.text import plain

if TYPE_CHECKING:
    import asyncio

    from orbiter import Agent, Swarm
    from orbiter.types import Message, RunResult

HELP = "/new begins afresh, /quit leaves (so does Ctrl-D), Ctrl-C stops an answer, twice leaves"


@ends
def chat(
    agent: AgentName,
    model: Model = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="FILE",
            help="Go on with the conversation kept in FILE.",
            show_default=False,
        ),
    ] = None,
    trace: TraceFile = None,
    as_json: AsJson = False,
) -> int:
    """Talk to an agent. Without a terminal each line of standard input is a message."""
    import asyncio

    from orbiter.cli.agent.loading import load_agent

    loaded = load_agent(agent, model=model)
    file = Path(session) if session else None
    messages, paused = _read(file)
    if session is not None:
        check_writable("--session", session)
    talk = _Talk(messages, paused, file, as_json)
    # one loop for the whole conversation: connections of models and MCP servers live in it
    with asyncio.Runner() as runner, tracing(trace):
        target = runner.run(loaded.__aenter__())
        try:
            return talk.go_on(target, runner)
        finally:
            runner.run(loaded.__aexit__(None, None, None))


class _Talk:
    def __init__(
        self, messages: "list[Message]", paused: str | None, file: Path | None, as_json: bool
    ) -> None:
        self._messages = messages
        self._asking = Asking(paused)
        self._file = file
        self._json = as_json
        self._person = sys.stdin.isatty() and not as_json
        self._running = False

    def go_on(self, target: "Agent | Swarm", runner: "asyncio.Runner") -> int:
        if self._person:
            import readline  # noqa: F401 (gives input() a history)

            sys.stderr.write(f"{HELP}\n")
        code = ExitCode.OK
        self._ask()
        while (line := self._line()) is not None:
            if line in ("/quit", "/exit"):
                break
            if line == "/new":
                self._keep([])
            elif line in ("/help", "/?"):
                sys.stderr.write(f"{HELP}\n")
            elif line:
                code = self._turn(target, line, runner)
                self._ask()
        return ExitCode.OK if self._person else code

    def _ask(self) -> None:
        """Say what a person has to answer before anything else."""
        for line in self._asking.lines():
            sys.stderr.write(f"{plain(line)}\n")

    def _turn(self, target: "Agent | Swarm", line: str, runner: "asyncio.Runner") -> ExitCode:
        from orbiter.errors import InputAnswerError
        from orbiter.types import OrbiterError

        how = "json" if self._json else "text"
        try:
            said: dict[str, Any] = {"messages": self._messages}
            if self._asking:
                if not self._asking.take(line):
                    return ExitCode.WAITING
                line, said = "", self._asking.resumption()
            result = runner.run(self._answer(target, line, how=how, **said))
        except KeyboardInterrupt:
            # pressed twice it leaves a turn that has not ended: the next one would meet it
            if not self._person or self._running:
                raise
            sys.stderr.write("(stopped)\n")
            self._ask_again()
            return ExitCode.OK
        except OrbiterError as error:
            # the conversation stays as it was before; a person may just try again
            tell(str(error))
            if isinstance(error, InputAnswerError):
                self._asking.again()
            else:
                self._ask_again()
            return ExitCode.FAILED
        self._keep(result.messages, result.paused)
        if result.stop_reason == "input_required":
            return ExitCode.WAITING
        if result.stop_reason != "completed":
            cut = cut_short(result.stop_reason)
            sys.stderr.write(f"stopped: {result.stop_reason}{cut and f' ({cut})'}\n")
            return ExitCode.STOPPED
        return ExitCode.OK

    async def _answer(self, target: "Agent | Swarm", line: str, **how: Any) -> "RunResult":
        self._running = True
        try:
            return await ask(target, line, **how)
        finally:
            self._running = False

    def _ask_again(self) -> None:
        """Ask anew what was answered already, of a run that did not come to its end."""
        if self._asking and self._asking.open is None:
            sys.stderr.write("what was approved may have run already; answer again\n")
            self._asking.again()

    def _line(self) -> str | None:
        if not self._person:
            line = sys.stdin.readline()
            return line.strip() if line else None
        try:
            return input("> ").strip()
        except EOFError:
            sys.stderr.write("\n")
            return None

    def _keep(self, messages: "list[Message]", paused: str | None = None) -> None:
        self._messages = messages
        self._asking = Asking(paused)
        if self._file is None:
            return
        from orbiter.types import RunResult

        new = self._file.with_name(self._file.name + ".new")
        kept = RunResult(messages=messages, paused=paused)
        new.write_text(kept.model_dump_json(include={"messages", "paused"}))
        new.replace(self._file)


def _read(file: Path | None) -> "tuple[list[Message], str | None]":
    if file is None or not file.exists():
        return [], None
    from pydantic import ValidationError

    from orbiter.cli.ui.sentences import validation_sentence
    from orbiter.types import OrbiterError, RunResult

    try:
        kept = RunResult.model_validate_json(file.read_text(encoding="utf-8"))
        # without them it is another program's JSON, which would be written over
        if "messages" in kept.model_fields_set:
            Asking(kept.paused)
            return list(kept.messages), kept.paused
        what = "messages: it is missing"
    except ValidationError as error:
        what = validation_sentence(error)
    except OrbiterError as error:
        what = str(error)
    except UnicodeDecodeError as error:
        what = f"it is no text in UTF-8: {error.reason}"
    except OSError as error:
        what = error.strerror or str(error)
    raise UsageError(f"--session {file} holds no conversation: {what}; name another file")
