"""Transcripts as they are in Redis, and what a reader makes of them. Pure and total.

Whoever may write a transcript could write anything into it, so one event that cannot be read is
that event's affair: it counts as missing, and what follows is read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from orbiter_contracts.bounds import MAX_COUNT, shortened
from orbiter_contracts.envelope import excerpt
from orbiter_contracts.queues import DATA_FIELD
from orbiter_contracts.transcript import (
    MAX_ENTRY_BYTES,
    MAX_EVENT_BYTES,
    MAX_NAME_CHARACTERS,
    AnyEvent,
    CutEvent,
    Event,
    TranscriptEvent,
)
from orbiter_contracts.transcript_scripts import END_FIELD, NEXT_FIELD

E = TypeVar("E", bound=Event)
MOST_UNREAD: Final = 50
"""So many values of an entry are no events, then the rest of it is not read: to refuse one takes
7 µs, and 64 KiB have room for 32,000 of them."""
_SHORTEST: Final = 16
_NAMES: Final = frozenset(("type", "status", "reason", "request_id", "tool_call_id"))
"""Texts that are short enough, and with a mark in them were others."""
_DIGITS: Final = 16
_event: Final[TypeAdapter[AnyEvent]] = TypeAdapter(TranscriptEvent)
_some: Final[TypeAdapter[list[Any]]] = TypeAdapter(list[Any])


def brief(text: str) -> str:
    """A name that an agent made up, as an event can carry it: cut, and never refused."""
    return shortened(text.replace("\x00", "\ufffd"), MAX_NAME_CHARACTERS)


def fitted_event(event: E, most: int = MAX_EVENT_BYTES) -> E:
    """An event whose JSON has at most so many bytes: its longest texts give way, with a mark.

    Args:
        event: Any event.
        most: The bound; what is no text takes some 5 KiB at most.
    """
    short, characters = event, most
    while characters >= _SHORTEST and len(short.model_dump_json(exclude_none=True).encode()) > most:
        update = {
            name: shortened(value, characters)
            for name, value in event
            if isinstance(value, str) and name not in _NAMES and len(value) > characters
        }
        short = event.model_copy(update=update)
        characters = characters * 3 // 4
    return short


def entry_data(events: Iterable[AnyEvent]) -> str:
    """The field `data` of an entry with these events."""
    return f"[{','.join(event.model_dump_json(exclude_none=True) for event in events)}]"


class TranscriptEntry(NamedTuple):
    """An entry of a transcript.

    Attributes:
        events: Those that could be read, in the order of their sequence.
        next_sequence: What the event behind them has; 0 when the entry does not say.
        begin: How many bytes of the transcript were before this entry, as its writer counts.
        end: The same with this entry.
        problem: Why something of it could not be read; None when everything could.
    """

    events: tuple[AnyEvent, ...] = ()
    next_sequence: int = 0
    begin: int = 0
    end: int = 0
    problem: str | None = None


def read_entry(fields: Mapping[bytes, bytes] | Mapping[str, str]) -> TranscriptEntry:
    """Read an entry of a transcript; total: whatever bytes it has, what can be read is read."""
    data = _field(fields, DATA_FIELD)
    end, after = _figure(_field(fields, END_FIELD)), _figure(_field(fields, NEXT_FIELD))
    begin = max(end - len(data), 0)
    if len(data) > MAX_ENTRY_BYTES:
        why = f"{len(data)} bytes; an entry of a transcript has at most {MAX_ENTRY_BYTES}"
        return TranscriptEntry((), after, begin, end, why)
    try:
        values = _some.validate_json(data)
    except ValueError:
        why = f"no list of events in JSON: {excerpt(data)}"
        return TranscriptEntry((), after, begin, end, why)
    events, before = list[AnyEvent](), -1
    problem: str | None = None
    unread = 0
    for value in values:
        try:
            event = _event.validate_python(value)
        except ValidationError as error:
            unread += 1
            if unread == MOST_UNREAD:
                problem = f"{unread} values of an entry are no events; the rest is not read"
                break
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            problem = excerpt(f"no event of a transcript: {first['msg']}")
            continue
        if event.sequence <= before:
            problem = f"event {event.sequence} behind event {before}"
            continue
        before = event.sequence
        events.append(event)
    return TranscriptEntry(tuple(events), after, begin, end, problem)


class TranscriptReader:
    """What one reader has seen of a transcript: no event twice, and what is missing is said.

    Args:
        after: The sequence of the last event that it knows already; None when it knows none.

    Attributes:
        next_sequence: Of the first event that it has not seen.
    """

    def __init__(self, after: int | None = None) -> None:
        self.next_sequence = 0 if after is None else after + 1
        self._end: int | None = 0 if after is None else None

    def take(self, entry: TranscriptEntry) -> list[AnyEvent]:
        """The events of the next entry that are new, with a `cut` where some are missing."""
        told = list[AnyEvent]()
        for event in entry.events:
            if event.sequence < self.next_sequence:
                continue
            if event.sequence > self.next_sequence:
                told.append(self._missing(event, entry))
            told.append(event)
            self.next_sequence = event.sequence + 1
        self._end = entry.end
        return told

    def _missing(self, event: AnyEvent, entry: TranscriptEntry) -> CutEvent:
        """Stands for what is between the last event and this one."""
        lost = max(entry.begin - self._end, 0) if self._end is not None else 0
        return CutEvent(
            sequence=self.next_sequence,
            at=event.at,
            attempt=event.attempt,
            cost_usd=event.cost_usd,
            events=event.sequence - self.next_sequence,
            bytes=lost,
        )


def _field(fields: Mapping[bytes, bytes] | Mapping[str, str], name: str) -> bytes:
    """A field's bytes, whether the client decodes replies or not; none when it is not there."""
    for key, value in fields.items():
        if key in (name, name.encode()):
            return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return b""


def _figure(text: bytes) -> int:
    """A count as the script writes it; 0 for whatever is none."""
    return min(int(text), MAX_COUNT) if text.isdigit() and len(text) <= _DIGITS else 0
