"""The pieces of a run inside an observer's scopes; the loop comes here only when there is one."""

from collections.abc import Awaitable, Callable
from typing import Any

from orbiter._internal.model_call import call_model
from orbiter._internal.protocols import ModelReply
from orbiter._internal.turn import Turn
from orbiter.observer import Observer
from orbiter.types import Message, RunResult


async def observed_run(
    observer: Observer, target: Any, input: str, work: Callable[[], Awaitable[RunResult]]
) -> RunResult:
    """Run a target inside its scope."""
    with observer.run(target, input) as scope:
        result = await work()
        scope.done(result)
        return result


async def observed_step(turn: Turn, take_step: Callable[[Turn], Awaitable[None]]) -> None:
    """Take a step inside its scope."""
    observer: Any = turn.observer
    with observer.step(turn.agent, turn.state.steps + 1):
        await take_step(turn)


async def observed_model_call(turn: Turn, messages: list[Message]) -> ModelReply:
    """Call the model inside its scope."""
    observer: Any = turn.observer
    streamed = turn.state.emit is not None
    with observer.model_call(turn.agent, messages, turn.provider, streamed=streamed) as scope:
        reply = await call_model(turn, messages)
        scope.done(reply)
        return reply
