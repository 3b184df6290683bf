"""What a run had done when its server died, read from its events: pure functions.

A step counts when the model's reply was complete and its tools are known; a reply that broke off
is asked for again. A tool that was running is not run twice: the model is told and decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orbiter import Agent
from orbiter.config import Spent
from orbiter.types import AssistantMessage, Message, ToolCall, ToolResult, Usage

CUT_OFF = (
    "no result: the server stopped while this tool ran; it may have done all, some or none of its "
    "work"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where to go on.

    Attributes:
        messages: What complete steps said, every call answered.
        agent_name: Who has the conversation; None when it was not handed off.
        kept: `seq` of the last event that still counts.
        spent: What the run has taken, the steps that do not count included.
    """

    messages: list[Message]
    agent_name: str | None
    kept: int
    spent: Spent


def progress_of(events: Iterable[dict[str, Any]]) -> Progress:
    """Read a run's events, oldest first."""
    messages: list[Message] = []
    owner: str | None = None
    kept = 0
    usage = Usage()
    steps: dict[str, int] = {}
    step = _Step()
    for event in events:
        if event["type"] == "step":
            name = event["agent_name"]
            steps[name] = steps.get(name, 0) + 1
        match event["type"]:
            case "step" | "resumed":
                if step.complete:
                    messages += step.messages()
                    kept = step.last
                # tool_results of a step that counts come before the next step begins
                step = _Step()
            case "text":
                step.text += event["text"]
            case "tool_call":
                call = ToolCall(
                    id=event["tool_call_id"], name=event["tool_name"], arguments=event["arguments"]
                )
                step.calls[call.id] = call
            case "tool_result":
                step.results[event["tool_call_id"]] = ToolResult(
                    tool_call_id=event["tool_call_id"],
                    tool_name=event["tool_name"],
                    content=event["content"],
                    error=event["error"],
                    parts=event.get("parts", ()),
                )
            case "usage":
                usage += Usage.model_validate(event["usage"])
            case "handoff":
                owner = event["target"]
        step.last = event["seq"]
    if step.complete:
        messages += step.messages()
        kept = step.last
    return Progress(messages, owner, kept, Spent(usage=usage, steps=steps))


def find_agent(root: Agent, name: str | None) -> Agent | None:
    """Return the agent of that name among those the root can hand off to."""
    if name is None:
        return root
    seen: dict[int, Agent] = {}
    waiting = [root]
    while waiting:
        agent = waiting.pop()
        if agent.name == name:
            return agent
        if id(agent) not in seen:
            seen[id(agent)] = agent
            waiting += agent.handoffs
    return None


class _Step:
    def __init__(self) -> None:
        self.text = ""
        self.calls: dict[str, ToolCall] = {}
        self.results: dict[str, ToolResult] = {}
        self.last = 0

    @property
    def complete(self) -> bool:
        # a reply without calls is either the end of the run or broke off: asking again is safe
        return bool(self.calls)

    def messages(self) -> list[Message]:
        said = AssistantMessage(content=self.text, tool_calls=list(self.calls.values()))
        return [
            said,
            *(
                self.results.get(call.id)
                or ToolResult(tool_call_id=call.id, tool_name=call.name, error=CUT_OFF)
                for call in self.calls.values()
            ),
        ]
