"""What a run had done when its process stopped, read from its entries: pure functions, one rule.

A step counts when the model's reply was complete and its tools are known; a reply that broke off
is asked for again. A tool that may have begun is not run twice: the model is told and decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from orbiter._paused import WAITS, noted
from orbiter.config import Spent
from orbiter.journal import (
    Answered,
    Decided,
    Entry,
    HandedOff,
    ModelCalled,
    Replied,
    Resumed,
    Said,
    Took,
    ToolDone,
    Waiting,
)
from orbiter.types import (
    AssistantMessage,
    HandoffEvent,
    Message,
    StepEvent,
    TextEvent,
    ToolCall,
    ToolCallEvent,
    ToolResult,
    ToolResultEvent,
    Usage,
    UsageEvent,
    UserMessage,
)

__all__ = ["CUT_OFF", "Progress", "Step", "find_agent", "progress_by_scope", "progress_of"]

CUT_OFF = (
    "no result: the process stopped while this tool ran; it may have done all, some or none of its "
    "work"
)


@dataclass(slots=True)
class Step:
    """A reply and what came of it.

    Attributes:
        text, calls: Of a reply that was heard piece by piece.
        reply: The reply as it was kept whole.
        results: By the call's id.
        said: What the model was told to correct.
        waiting: Which calls wait for a person; `decided` is None again when one asks once more.
        decided, edited: What people have said to that, and their arguments by the call's id.
    """

    text: str = ""
    calls: dict[str, ToolCall] = field(default_factory=dict)
    reply: Replied | None = None
    results: dict[str, ToolResult] = field(default_factory=dict)
    said: UserMessage | None = None
    waiting: Waiting | None = None
    decided: Decided | None = None
    edited: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def waits_for(self) -> Waiting | None:
        """What the step waits for; None when it goes on."""
        return self.waiting if self.decided is None else None

    @property
    def complete(self) -> bool:
        """Whether the step counts."""
        # a reply in pieces without calls is either the end of the run or broke off: asking again
        # is safe
        return self.reply is not None or bool(self.calls)

    @property
    def message(self) -> AssistantMessage:
        """What the model said."""
        if self.reply is not None:
            return self.reply.message
        return AssistantMessage(content=self.text, tool_calls=list(self.calls.values()))

    def result(self, call: ToolCall) -> ToolResult:
        """Return the result of a call; of one that has none, that it may have begun or waits."""
        waits = self.waits_for is not None and call.id in self.waits_for.requests
        result = self.results.get(call.id) or ToolResult(
            tool_call_id=call.id, tool_name=call.name, error=WAITS if waits else CUT_OFF
        )
        edited = None if waits else self.edited.get(call.id)
        return result if edited is None else noted(result, edited)

    def messages(self) -> list[Message]:
        """Return what was said, every call answered."""
        message = self.message
        said = [] if self.said is None else [self.said]
        return [message, *map(self.result, message.tool_calls), *said]


@dataclass(slots=True)
class Progress:
    """Where to go on.

    Attributes:
        messages: What complete steps said, every call answered.
        agent_name: Who has the conversation; None when it was not handed off.
        handed_at: How many messages were there when that one got it.
        kept: Which entry is the last that still counts, from 1.
        spent: What the run has taken, the steps that do not count included.
        last: The last complete step, if nothing followed from it yet; `messages` has it too.
        answer: What the output is read from, once there is one.
        decided: Pauses that people have ended, by their ids.
    """

    messages: list[Message] = field(default_factory=list)
    agent_name: str | None = None
    handed_at: int = 0
    kept: int = 0
    spent: Spent = field(default_factory=Spent)
    last: Step | None = None
    answer: str | None = None
    decided: frozenset[str] = frozenset()


def progress_of(entries: Iterable[Entry]) -> Progress:
    """Read the entries of one scope, oldest first."""
    reader = _Reader()
    for number, entry in enumerate(entries, 1):
        reader.read(entry)
        reader.step_end = number
    return reader.progress()


def progress_by_scope(entries: Iterable[Entry]) -> dict[str, Progress]:
    """Read the entries of a run, apart for each agent of its flow."""
    scopes: dict[str, list[Entry]] = {}
    for entry in entries:
        scopes.setdefault(getattr(entry, "scope", ""), []).append(entry)
    return {scope: progress_of(found) for scope, found in scopes.items()}


class _Reader:
    """The state between two entries."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.owner: str | None = None
        self.handed_at = self.kept = self.step_end = 0
        self.usage, self.step = Usage(), Step()
        self.steps: dict[str, int] = {}
        self.answer: str | None = None
        self.decided: set[str] = set()

    def read(self, entry: Entry) -> None:
        step = self.step
        match entry:
            case StepEvent(agent_name=name) | ModelCalled(agent_name=name):
                self.steps[name] = self.steps.get(name, 0) + 1
                # results of a step that counts come before the next step begins
                self._close()
            case Resumed():
                self._close()
            case TextEvent(text=text):
                step.text += text
            case ToolCallEvent():
                step.calls[entry.tool_call_id] = ToolCall(
                    id=entry.tool_call_id, name=entry.tool_name, arguments=entry.arguments
                )
            case ToolResultEvent():
                step.results[entry.tool_call_id] = ToolResult(
                    tool_call_id=entry.tool_call_id, tool_name=entry.tool_name,
                    content=entry.content, error=entry.error, parts=entry.parts,
                )  # fmt: skip
            case UsageEvent(usage=usage):
                self.usage += usage
            case Replied(usage=usage):
                step.reply = entry
                self.usage += usage
            case ToolDone(result=result):
                step.results[result.tool_call_id] = result
            case Waiting():
                step.waiting, step.decided = entry, None
                step.results |= {result.tool_call_id: result for result in entry.results}
            case Decided():
                step.decided = entry
                step.edited |= entry.edited
                step.results |= {result.tool_call_id: result for result in entry.results}
                self.decided.add(entry.id)
            case Said(message=message):
                step.said = message
            case HandoffEvent(target=target):
                self.owner = target
            case HandedOff(target=target):
                self._close()
                self.owner, self.handed_at = target, len(self.messages)
            case Took(spent=spent):
                self.usage += spent.usage
                for name, count in spent.steps.items():
                    self.steps[name] = self.steps.get(name, 0) + count
            case Answered(answer=answer):
                self.answer = answer

    def _close(self) -> None:
        if self.step.complete:
            self.messages += self.step.messages()
            self.kept = self.step_end
        self.step = Step()

    def progress(self) -> Progress:
        last = self.step if self.step.complete and self.step.said is None else None
        self._close()
        spent = Spent(usage=self.usage, steps=self.steps)
        return Progress(
            self.messages, self.owner, self.handed_at, self.kept, spent, last, self.answer,
            frozenset(self.decided),
        )  # fmt: skip


class _Handing(Protocol):
    """An agent, as far as the way to others matters."""

    @property
    def name(self) -> str: ...
    @property
    def handoffs(self) -> Sequence[Any]: ...


AgentT = TypeVar("AgentT", bound=_Handing)


def find_agent(root: AgentT, name: str | None, others: Iterable[AgentT] = ()) -> AgentT | None:
    """Return the agent of that name among the root, the others, and those they can hand off to."""
    if name is None:
        return root
    seen: dict[int, AgentT] = {}
    waiting = [*others, root]
    while waiting:
        agent = waiting.pop()
        if agent.name == name:
            return agent
        if id(agent) not in seen:
            seen[id(agent)] = agent
            waiting += agent.handoffs
    return None
