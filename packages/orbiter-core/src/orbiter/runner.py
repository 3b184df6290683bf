"""`run`: the three ways to run an agent or a swarm, and nothing else."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from orbiter._internal.beside import run_to_the_end
from orbiter._internal.call_runner import Outcome
from orbiter._internal.content import given
from orbiter._internal.message_builder import close_calls
from orbiter._internal.output_parser import OutputValidationError
from orbiter._internal.providers import close_providers, provider_for
from orbiter._internal.state import Emit, RunState
from orbiter._internal.stream import RunStream
from orbiter._internal.swarm_runner import run_nested, run_target
from orbiter._misuse import require, require_all, require_method
from orbiter.agent import Agent
from orbiter.config import ModelSettings, Spent, TaskConfig
from orbiter.parts import Part
from orbiter.protocols import Provider
from orbiter.swarm import Swarm
from orbiter.types import (
    AssistantMessage,
    DepsT,
    Message,
    OrbiterError,
    OutputT,
    RunResult,
    SystemMessage,
    ToolResult,
    UserMessage,
)

__all__ = ["OutputValidationError", "RunStream", "Runner", "run"]


class Runner:
    """The type of `run`. All three ways take the same arguments.

    Args:
        agent: An Agent or a Swarm.
        input: What the user says: text, or parts with images and documents. Empty goes on with
            `messages` as they are.
        messages: The conversation so far, for example an earlier `result.messages`.
        provider: A model to use instead of the agents' own, for example a ScriptedModel.
        deps: Anything; instructions, hooks and tools find it as `RunContext.deps`.
        config: Limits of the run.
        spent: What the run had taken before it was interrupted; its steps and tokens count on.
        settings: How the models are to answer in this run; they go before the agents' own.
    """

    async def __call__(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        _provider: Provider | None = None,
    ) -> RunResult[OutputT]:
        """Run to the end.

        Returns:
            The result; a run that met a limit says so in `stop_reason`.

        Raises:
            OrbiterError: The model could not be called or gave no valid output; the error's
                `messages`, `usage` and `steps` are what there was up to then.
        """
        text = _checked(agent, input)
        begin = _beginning(messages, provider or _provider, deps, config, spent, settings)
        return await _execute(agent, text, begin(None))

    def sync(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        _provider: Provider | None = None,
    ) -> RunResult[OutputT]:
        """Run to the end from code that is not async.

        Where an event loop runs already, as in a notebook, the run has a loop and a thread of its
        own, and the one here stands still until it is over; async code has `await run(...)`.

        Raises:
            OrbiterError: As `run`.
        """

        async def main() -> RunResult[OutputT]:
            try:
                return await self(
                    agent,
                    input,
                    messages=messages,
                    provider=provider or _provider,
                    deps=deps,
                    config=config,
                    spent=spent,
                    settings=settings,
                )
            finally:
                await close_providers()

        return run_to_the_end(main)

    def stream(
        self,
        agent: Agent[DepsT, OutputT] | Swarm,
        input: str | Sequence[Part],
        *,
        messages: Sequence[Message] = (),
        provider: Provider | None = None,
        deps: DepsT | None = None,
        config: TaskConfig | None = None,
        spent: Spent | None = None,
        settings: ModelSettings | None = None,
        _provider: Provider | None = None,
    ) -> RunStream[OutputT]:
        """Run while somebody reads: `async for event in run.stream(agent, "...")`.

        The last event of a run that ends by itself is a ResultEvent. An error is told by an
        ErrorEvent and raised after it. Leaving the loop cancels the run.
        """
        text = _checked(agent, input)
        return RunStream(
            _beginning(messages, provider or _provider, deps, config, spent, settings),
            lambda state: _execute(agent, text, state),
        )

    async def aclose(self) -> None:
        """Close the connections that models of agents have opened in this event loop.

        `run.sync` and `asyncio.run` do that at their end. A program that makes and closes its event
        loop itself calls it before; whoever runs on gets new connections.
        """
        await close_providers()

    def __repr__(self) -> str:
        return "run"


run = Runner()


def _checked(agent: object, input: str | Sequence[Part]) -> str:
    require(agent, (Agent, Swarm), "run(...)", "an Agent or a Swarm, such as Agent(name=...)")
    return input if isinstance(input, str) else given(input)


def _beginning(
    messages: Sequence[Message],
    provider: Provider | None,
    deps: Any,
    config: TaskConfig | None,
    spent: Spent | None,
    settings: ModelSettings | None,
) -> Callable[[Emit | None], RunState]:
    kinds = (UserMessage, AssistantMessage, SystemMessage, ToolResult)
    require_all(
        messages, kinds, "run(messages=...)", "messages, such as an earlier result.messages"
    )
    if provider is not None:
        give = 'a model, such as get_provider("openai:gpt-4o")'
        require_method(provider, "complete stream", "run(provider=...)", give)
    if config is not None:
        require(config, TaskConfig, "run(config=...)", "TaskConfig(timeout=..., ...)")
    if spent is not None:
        require(spent, Spent, "run(spent=...)", "Spent(usage=..., steps=...)")
    if settings is not None:
        require(settings, ModelSettings, "run(settings=...)", "ModelSettings(top_p=..., ...)")

    def begin(emit: Emit | None) -> RunState:
        return RunState(
            provider_for=provider_for if provider is None else lambda model: provider,
            history=close_calls(list(messages)),
            config=config,
            deps=deps,
            emit=emit,
            spent=spent,
            settings=settings,
            nested=run_nested,
        )

    return begin


async def _execute(target: Agent | Swarm, input: str, state: RunState) -> RunResult:
    try:
        if state.observer is None:
            return _result(await run_target(target, input, state.history, state), state)
        with state.observer.run(target, input) as scope:
            result = _result(await run_target(target, input, state.history, state), state)
            scope.done(result)
            return result
    except Exception as error:
        _keep(error, state.result("", "error"))
        raise


def _keep(error: Exception, result: RunResult) -> None:
    """Let an error tell what its run had come to; words that others use otherwise stay theirs."""
    ours = isinstance(error, OrbiterError)
    for name in ("messages", "usage", "steps"):
        if ours or not hasattr(error, name):
            with suppress(AttributeError):
                setattr(error, name, getattr(result, name))


def _result(outcome: Outcome, state: RunState) -> RunResult:
    state.last_agent, state.typed = outcome.agent_name, outcome.typed
    return state.result(outcome.output, outcome.stop_reason)
