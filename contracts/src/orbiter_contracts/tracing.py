"""One trace per AgentTask. Pure: every id follows from the task's uid, so that nobody keeps one.

The operator writes all spans, its own and those of the worker, whose steps come with its output: a
worker needs no way to a collector, and can write into no trace but its task's. The agent is told
where it stands by the variable TRACEPARENT, as W3C Trace Context has it, level 1.
"""

import re
from hashlib import sha256
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import BeforeValidator, FailFast, Field

from orbiter_contracts.bounds import Count, Moment, Text, shortened
from orbiter_contracts.message_base import Message

MAX_STEPS: Final = 500
"""Steps of one output: 60 KiB as JSON."""
MAX_STEP_CHARACTERS: Final = 200
TRACEPARENT: Final = "TRACEPARENT"
"""The variable that programs read their parent from."""
_LONGEST: Final = 512
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class TraceParent(NamedTuple):
    """Where a span goes.

    Attributes:
        trace_id: 32 lower-case hexadecimal digits.
        span_id: The span above it, 16 of them; "" when it is the first.
    """

    trace_id: str
    span_id: str = ""

    def __str__(self) -> str:
        """As the value of the header `traceparent`, sampled."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def read_traceparent(text: object) -> TraceParent | None:
    """What a `traceparent` says; None when it is none (W3C Trace Context, section 3.2.2)."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    found = _PARENT.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[4]):
        return None
    if not found[2].strip("0") or not found[3].strip("0"):
        return None
    return TraceParent(found[2], found[3])


def trace_of(uid: str, parent: object = None) -> TraceParent:
    """The trace of a task: the one somebody has begun it in, or its own.

    Args:
        uid: The task's uid.
        parent: The `traceparent` it was made with; what is none counts as none.
    """
    if begun := read_traceparent(parent):
        return begun
    try:
        digits = UUID(uid).hex
    except ValueError:
        digits = ""
    return TraceParent(digits if digits.strip("0") else sha256(uid.encode()).hexdigest()[:32])


def span_of(uid: str, part: str = "") -> str:
    """The id of a part's span, 16 hexadecimal digits; without a part, of the task's own."""
    return sha256(f"orbiter:{uid}:{part}".encode()).hexdigest()[:16]


def agent_span(uid: str, attempt: int) -> str:
    """The id of the span that what an attempt's agent does is below."""
    return span_of(uid, f"{attempt}/agent")


def _short(name: object) -> object:
    return shortened(name, MAX_STEP_CHARACTERS) if isinstance(name, str) else name


class Step(Message):
    """Something that took a worker's time: one of its own phases, or a tool of its agent.

    Attributes:
        name: Of the phase in words, or of the tool as the agent's program calls it.
        kind: Which of the two.
        started_at: When it began, by the worker's clock.
        duration_ms: How long it took.
        failed: Whether it came to nothing.
    """

    name: Annotated[Text, BeforeValidator(_short)]
    kind: Literal["phase", "tool"] = "phase"
    started_at: Moment
    duration_ms: Count = 0
    failed: bool = False


def _first(value: object) -> object:
    return value[:MAX_STEPS] if isinstance(value, list) else value


Steps = Annotated[list[Step], FailFast(), BeforeValidator(_first), Field(max_length=MAX_STEPS)]
"""What is too much of them is cut and never refused: nothing depends on it."""
