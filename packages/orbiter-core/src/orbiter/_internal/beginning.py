"""How a run begins, what keeps it, and how it ends: what `run` does behind its checks."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from orbiter._internal.call_runner import Outcome
from orbiter._internal.message_builder import close_calls
from orbiter._internal.providers import provider_for
from orbiter._internal.resumed import Resumed
from orbiter._internal.state import Emit, RunState
from orbiter._internal.swarm_runner import Members, run_nested, run_target
from orbiter._misuse import require, require_all, require_method
from orbiter.agent import Agent
from orbiter.config import ModelSettings, Spent, TaskConfig
from orbiter.durable import RunStore, Session
from orbiter.protocols import Provider
from orbiter.types import (
    AssistantMessage,
    Message,
    RunResult,
    SystemMessage,
    ToolResult,
    UserMessage,
)


def beginning(
    messages: Sequence[Message],
    provider: Provider | None,
    deps: Any,
    config: TaskConfig | None,
    spent: Spent | None,
    settings: ModelSettings | None,
    resumed: Resumed | None,
    journal: RunStore | None,
) -> Callable[[Emit | None], RunState]:
    """Check what a run is given, and return what makes its state.

    Raises:
        OrbiterError: Something is not what its parameter takes.
    """
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

    if resumed is not None:
        # a journal knows both
        messages, spent = (resumed.history, resumed.spent) if journal is None else ((), None)

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
            resumed=resumed,
        )

    return begin


def kept(
    target: Agent | Members,
    input: str,
    journal: RunStore | None,
    run_id: str | None,
    session: Session | None,
    messages: Sequence[Message],
) -> Callable[[RunState], Coroutine[Any, Any, RunResult]]:
    """Return what runs it to the end; a run that nothing keeps does not pay for those that are."""
    if journal is None and run_id is None and session is None:
        return partial(execute, target, input)
    from orbiter._internal.durable_run import DurableRun

    durable = DurableRun(journal, run_id, session, messages)
    return partial(durable.execute, execute, target, input)


async def execute(target: Agent | Members, input: str, state: RunState) -> RunResult:
    """Run to the end; an error tells what there was up to then."""
    try:
        if state.observer is None:
            return _result(await run_target(target, input, state.history, state), state)
        with state.observer.run(target, input) as scope:
            result = _result(await run_target(target, input, state.history, state), state)
            scope.done(result)
            return result
    except Exception as error:
        from orbiter._internal.unfinished import keep

        run_id = None if state.journal is None else state.journal.run_id
        keep(error, state.result("", "error"), run_id=run_id, go_on=state.go_on)
        raise


def _result(outcome: Outcome, state: RunState) -> RunResult:
    state.last_agent, state.typed = outcome.agent_name, outcome.typed
    return state.result(outcome.output, outcome.stop_reason)
