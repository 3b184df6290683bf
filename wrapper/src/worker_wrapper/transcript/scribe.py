"""Makes a transcript's events of what an agent is heard to say and do: redacted, bounded, merged.

What waits to be written is bounded: the oldest events give way, and a `cut` says how many. A text
is read as it comes and shown as `PartialText` allows: no verdict, no half of a secret.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from orbiter_contracts import Usage
from orbiter_contracts.transcript import (
    MAX_ENTRY_BYTES,
    AnyEvent,
    CutEvent,
    ErrorEvent,
    InputRequestEvent,
    MessageEvent,
    TextEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
    VerdictEvent,
)
from orbiter_contracts.transcript_reading import brief, fitted_event
from worker_wrapper.agents.base import Agent, Heard
from worker_wrapper.agents.decoding import loads
from worker_wrapper.checkpoint.meter import Meter
from worker_wrapper.redact import Redactor
from worker_wrapper.turn.steps import StepLog
from worker_wrapper.turn.streaming import PartialText
from worker_wrapper.turn.turn import TurnReport
from worker_wrapper.turn.usage import together

WAITING_BYTES: Final = 192 * 1024
"""How much waits for a Redis that is slow or away: three of the largest entries."""
TEXT_CHARACTERS: Final = 1900
"""Of one event of a text: its JSON, four bytes a character, is no larger than an event may be."""
_GATHERED_CHARACTERS: Final = 16 * 1024
_THREADS: Final = 32
_CALLS: Final = 256
_OVERHEAD_BYTES: Final = 48
"""What the sequence and its like add to an event that waits."""


@dataclass(slots=True)
class _Run:
    """A text that is being said, by one agent."""

    kind: str
    text: PartialText
    gathered: list[str] = field(default_factory=list)
    characters: int = 0
    opens: bool = True


class Scribe:
    """Of one turn.

    Args:
        agent: The adapter.
        redactor: Knows the secrets.
        attempt: Which attempt of the task; `SESSION_ATTEMPT` in a session.
        clock: Tells the time of day.
        request_id: In a session, of the message.
        before: What the attempt had used in its earlier pods.
        steps: Told of each tool that has answered.
    """

    def __init__(
        self,
        agent: Agent,
        redactor: Redactor,
        *,
        attempt: int,
        clock: Callable[[], datetime],
        request_id: str = "",
        before: Usage | None = None,
        steps: StepLog | None = None,
    ) -> None:
        self._agent = agent
        self._steps = steps
        self._scrub: Callable[[Any], Any] = redactor.scrub
        self._redactor = redactor
        self._head: dict[str, Any] = {"attempt": attempt, "request_id": request_id}
        self._clock = clock
        self._before = before
        self._meter = Meter(agent)
        self._told: Usage | None = before
        self._over = False
        self._runs: dict[str, _Run] = {}
        self._calls: dict[str, tuple[str, float]] = {}
        self._waiting: deque[tuple[AnyEvent, int]] = deque()
        self._waiting_bytes = 0
        self._lost_events = self._lost_bytes = 0

    @property
    def pending(self) -> bool:
        """Whether there is something to write."""
        return bool(
            self._waiting or self._lost_events or any(r.characters for r in self._runs.values())
        )

    @property
    def left(self) -> int:
        """How many events are there that nobody has taken."""
        return len(self._waiting) + self._lost_events

    def ask(self, text: str) -> None:
        """The agent is asked this by a user."""
        self._say(MessageEvent(**self._now(), text=self._scrub(text)))

    def hear(self, line: Mapping[str, Any]) -> None:
        """Take a line of the agent's output. Whatever goes wrong with it is that line's."""
        try:
            self._meter.hear(line)
            for heard in self._agent.heard(line):
                self._add(heard)
        except Exception:
            self.miss(0)

    def miss(self, size: int, events: int = 1) -> None:
        """Something is not there: a line that was too long or made trouble, events of before."""
        self._lost_events += events
        self._lost_bytes += size

    def end(self, report: TurnReport, usage: Usage | None) -> None:
        """The turn has ended: say what it came to, and what all of it has cost."""
        self.close()
        self._over = True
        if usage is not None:
            self._say(UsageEvent(**self._now(usage.cost_usd), usage=usage))
        verdict = report.verdict
        if report.status == "input_required" and verdict:
            # whoever looks for what waits finds it here, wherever the agent has put it
            question = verdict.question or verdict.summary or report.text
            self._say(InputRequestEvent(**self._now(), question=self._scrub(question)))
        summary = report.error or (verdict.summary if verdict else "")
        self._say(
            VerdictEvent(
                **self._now(usage.cost_usd if usage else None),
                status=report.status,
                reason=report.reason or "",
                text=self._scrub(summary),
            )
        )

    def close(self) -> None:
        """Nothing more is said by anybody."""
        for agent in [*self._runs]:
            self._close(agent)

    def take(self, most: int = MAX_ENTRY_BYTES - 1024) -> list[AnyEvent]:
        """The events to write next, of no more than so many bytes; what was lost comes first."""
        for agent, run in self._runs.items():
            self._show(agent, run)
        events = list[AnyEvent]()
        used = together(self._before, self._meter.spent)
        if self._waiting and not self._over and used is not None and used != self._told:
            self._told = used
            self._say(UsageEvent(**self._now(), usage=used))
        if self._lost_events:
            lost = {"events": self._lost_events, "bytes": self._lost_bytes}
            events.append(CutEvent(**self._now(), **lost))
            self._lost_events = self._lost_bytes = 0
        while self._waiting and self._waiting[0][1] <= most:
            event, size = self._waiting.popleft()
            self._waiting_bytes -= size
            most -= size
            events.append(event)
        return events

    def _add(self, heard: Heard) -> None:
        agent = brief(self._scrub(heard.agent)) if heard.agent else ""
        if heard.kind in ("text", "thinking"):
            self._gather(agent, heard)
            return
        self._close(agent)
        head = self._now() | {"agent_name": agent}
        text: str = self._scrub(heard.text)
        if heard.kind == "error":
            self._say(ErrorEvent(**head, error=text))
            return
        call, tool = brief(self._scrub(heard.call)), brief(self._scrub(heard.tool))
        if heard.kind == "tool_call" or (heard.arguments is not None and call not in self._calls):
            arguments = self._arguments(heard.arguments)
            self._say(ToolCallEvent(**head, tool_name=tool, tool_call_id=call, arguments=arguments))
            if heard.kind == "tool_call":
                self._begin(call, tool)
                return
        began = self._calls.pop(call, None)
        seconds = heard.seconds
        if began is not None:
            tool = tool or began[0]
            seconds = time.monotonic() - began[1] if seconds is None else seconds
        if self._steps:
            self._steps.tool(tool, seconds, failed=heard.failed)
        answer = {"error": text or "failed"} if heard.failed else {"content": text}
        result = ToolResultEvent(
            **head,
            **answer,
            tool_name=tool,
            tool_call_id=call,
            seconds=None if seconds is None else round(min(seconds, 1e9), 3),
        )
        self._say(result)

    def _begin(self, call: str, tool: str) -> None:
        if len(self._calls) >= _CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[call] = tool, time.monotonic()

    def _gather(self, agent: str, heard: Heard) -> None:
        run = self._runs.get(agent)
        if run is not None and (heard.opens or run.kind != heard.kind):
            self._close(agent)
            run = None
        if run is None:
            if len(self._runs) >= _THREADS:
                self._close(next(iter(self._runs)))
            run = self._runs[agent] = _Run(heard.kind, PartialText(self._redactor))
        run.gathered.append(heard.text)
        run.characters += len(heard.text)
        if run.characters > _GATHERED_CHARACTERS:
            self._show(agent, run)

    def _close(self, agent: str) -> None:
        run = self._runs.pop(agent, None)
        if run is not None:
            self._show(agent, run)
            self._text(agent, run, run.text.finish())

    def _show(self, agent: str, run: _Run) -> None:
        said, run.gathered, run.characters = "".join(run.gathered), [], 0
        self._text(agent, run, run.text.feed(said) if said else "")

    def _text(self, agent: str, run: _Run, text: str) -> None:
        kind = TextEvent if run.kind == "text" else ThinkingEvent
        for start in range(0, len(text), TEXT_CHARACTERS):
            piece = text[start : start + TEXT_CHARACTERS]
            self._say(kind(**self._now(), agent_name=agent, text=piece, opens=run.opens))
            run.opens = False

    def _arguments(self, value: Any) -> str:
        """As JSON, in which a secret is looked for before it is written with its escapes."""
        try:
            with suppress(ValueError):
                value = loads(value) if isinstance(value, str) else value
            return json.dumps(self._scrub(value), ensure_ascii=False)
        except (ValueError, TypeError, RecursionError):
            return "(arguments that cannot be shown)"

    def _now(self, cost: float | None = None) -> dict[str, Any]:
        if cost is None:
            used = together(self._before, self._meter.spent)
            cost = used.cost_usd if used else None
        return {"at": self._clock(), "cost_usd": cost, **self._head}

    def _say(self, event: AnyEvent) -> None:
        fitted = fitted_event(event)
        size = len(fitted.model_dump_json(exclude_none=True).encode()) + _OVERHEAD_BYTES
        self._waiting.append((fitted, size))
        self._waiting_bytes += size
        while self._waiting_bytes > WAITING_BYTES:
            _, oldest = self._waiting.popleft()
            self._waiting_bytes -= oldest
            self._lost_events += 1
            self._lost_bytes += oldest
