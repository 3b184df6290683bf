"""Hooks: the user's functions at fixed points of a run.

The run loop asks a HookManager whether anybody listens before it builds an event, so a run
without hooks pays nothing for them.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from orbiter.observer import Observer
from orbiter.protocols import ModelReply
from orbiter.types import Message, OrbiterError, RunContext, ToolCall, ToolResult


class HookPoint(StrEnum):
    """Where a hook can be attached, in the order the points are passed."""

    START = "start"
    PRE_LLM_CALL = "pre_llm_call"
    POST_LLM_CALL = "post_llm_call"
    PRE_TOOL_CALL = "pre_tool_call"
    POST_TOOL_CALL = "post_tool_call"
    FINISHED = "finished"
    ERROR = "error"

    # Enum's own is a function in Python, and a run looks points up several times a step
    __hash__ = str.__hash__


class HookEvent(NamedTuple):
    """What a hook learns; fields that mean nothing at a point are None.

    Attributes:
        point: Where the run is.
        agent_name: The agent that runs.
        run: Input, deps and conversation of the agent's run.
        step: Model calls made or begun by this run, from 1; 0 before the first.
        messages: What the model is about to see (PRE_LLM_CALL, with the system message), else the
            conversation so far.
        response: The provider's answer (POST_LLM_CALL).
        tool_call: The call (PRE_TOOL_CALL, POST_TOOL_CALL).
        tool_result: Its result (POST_TOOL_CALL).
        output: The final output (FINISHED).
        error: What ended the run (ERROR); a CancelledError when it was cancelled.
    """

    point: HookPoint
    agent_name: str
    run: RunContext
    step: int
    messages: Sequence[Message]
    response: ModelReply | None = None
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    output: Any = None
    error: BaseException | None = None


HookFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function, sync or async, that is called at one point of every run of an agent.

    It receives the HookEvent. A function without positional parameters receives the event's
    fields by name instead: `async def log(*, agent_name, tool_call, **_)`.
    What a hook raises ends the run.
    """

    point: HookPoint
    fn: HookFunction


class HookManager:
    """The hooks of one agent, by point.

    Attributes:
        observer: What was added as an Observer; the last one counts.
    """

    def __init__(
        self, hooks: Iterable[Hook | Observer | tuple[HookPoint, HookFunction]] = ()
    ) -> None:
        self.observer: Observer | None = None
        self._by_point: dict[HookPoint, list[tuple[HookFunction, bool, bool]]] = {}
        for hook in hooks:
            self.add(hook)

    def add(self, hook: Hook | Observer | tuple[HookPoint, HookFunction]) -> None:
        """Add a hook; those of the same point run in the order they were added."""
        if isinstance(hook, Observer):
            self.observer = hook
            return
        point, fn = (hook.point, hook.fn) if isinstance(hook, Hook) else _pair(hook)
        is_async = inspect.iscoroutinefunction(fn)
        self._by_point.setdefault(point, []).append((fn, _takes_event(fn), is_async))

    def __contains__(self, point: object) -> bool:
        return point in self._by_point

    def __bool__(self) -> bool:
        return bool(self._by_point)

    async def run(self, event: HookEvent) -> None:
        """Call the hooks of the event's point, one after the other."""
        for fn, takes_event, is_async in self._by_point.get(event.point, ()):
            outcome = fn(event) if takes_event else fn(**_by_name(fn, event))
            if is_async or inspect.isawaitable(outcome):
                await outcome


def _pair(hook: Any) -> tuple[HookPoint, HookFunction]:
    try:
        point, fn = hook
        point = HookPoint(point)
    except (TypeError, ValueError):
        raise OrbiterError(
            f"{hook!r} is no hook: give Hook(HookPoint.PRE_LLM_CALL, function) or such a pair"
        ) from None
    if not callable(fn):
        raise OrbiterError(f"The hook for {point} cannot be called: {fn!r}")
    return point, fn


def _takes_event(fn: HookFunction) -> bool:
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(p.kind in positional for p in inspect.signature(fn).parameters.values())


def _by_name(fn: HookFunction, event: HookEvent) -> dict[str, Any]:
    values = event._asdict()
    parameters = inspect.signature(fn).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return values
    return {p.name: values[p.name] for p in parameters if p.name in values}
