"""Entries for a stream that are not what they should be, one kind a line: add yours to the table.

Each kind is made for every stream: `INPUT`, `OUTPUT`, `LIFECYCLE` and a session's input. Whatever
reads a stream has to get past each of them, and what nobody could read is a dead letter.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orbiter_contracts.bounds import FIELD_OVERHEAD_BYTES
from orbiter_contracts.queues import BARE

SESSION = "session"
"""Stands for the input stream of any session."""
STREAMS = (BARE.developer_input, BARE.developer_output, BARE.lifecycle, SESSION)
Fields = dict[bytes, bytes]
Message = dict[str, object]
MIB = 1024 * 1024
_NOBODY = b"e2e/nobody"

_READABLE: dict[str, Message] = {
    BARE.developer_input: {"task_id": "storm", "prompt": "[[result]]"},
    BARE.developer_output: {"request_id": "storm", "task_id": "storm"},
    BARE.lifecycle: {"worker_id": "nobody", "event": "busy"},
    SESSION: {"user_id": 1, "prompt": "hello", "request_id": "storm"},
}


@dataclass(frozen=True)
class Kind:
    """One way in which an entry may be wrong.

    Attributes:
        name: What is wrong, for the reader of a failure.
        fields: The entry's fields, made from the stream's readable message.
        unreadable: On which streams nobody could make a message of it, so that it has to be a dead
            letter. Elsewhere it may also be bounded, or passed over.
        once: Too large to be sent often.
    """

    name: str
    fields: Callable[[Message], Fields]
    unreadable: tuple[str, ...] = STREAMS
    once: bool = False


@dataclass(frozen=True)
class Malformed:
    """One entry to hand in."""

    stream: str
    kind: Kind

    @property
    def fields(self) -> Fields:
        """What XADD is given."""
        routing: Fields = {}
        if self.stream == BARE.developer_output:
            routing = {b"agenttask": _NOBODY, b"attempt": b"1"}
        return routing | self.kind.fields(dict(_READABLE[self.stream]))

    @property
    def unreadable(self) -> bool:
        """Whether it has to become a dead letter."""
        return self.stream in self.kind.unreadable


def _raw(name: str, data: bytes, *, once: bool = False) -> Kind:
    """The data are these very bytes."""
    return Kind(name, lambda message: {b"data": data}, once=once)


def _with(name: str, text: str, unreadable: tuple[str, ...] = ()) -> Kind:
    """A readable message with this JSON text in it."""

    def fields(message: Message) -> Fields:
        return {b"data": f"{json.dumps(message)[:-1]}, {text}}}".encode()}

    return Kind(name, fields, unreadable)


def _long(name: str, size: int) -> Kind:
    """A readable message with a field of many characters."""

    def fields(message: Message) -> Fields:
        return {b"data": json.dumps(message | {"prompt": "x" * size, "more": "x" * size}).encode()}

    return Kind(name, fields, (), once=True)


def _attempt(name: str, attempt: bytes, task: bytes = _NOBODY) -> Kind:
    """A readable message for the attempt of a task that nobody knows."""

    def fields(message: Message) -> Fields:
        data = json.dumps(message).encode()
        return {b"data": data, b"agenttask": task, b"attempt": attempt}

    return Kind(name, fields, ())


CALLS = b', "verdict": {"request": {"calls": [' + b"{}," * 700_000 + b"{}]}}}"
TIMED = (BARE.developer_input, SESSION)

KINDS: tuple[Kind, ...] = (
    # What is no message at all.
    _raw("the bytes FF FE", b"\xff\xfe"),
    _raw("nothing", b""),
    _raw("a zero byte", b"\0"),
    _raw("plain words", b"say hello"),
    _raw("half an object", b'{"prompt": "say'),
    _raw("null", b"null"),
    _raw("a list", b"[]"),
    _raw("a number", b"7"),
    _raw("an empty object", b"{}"),
    _raw("UTF-16", '{"prompt": "hello"}'.encode("utf-16")),
    _raw("2,000 nested objects", b'{"a":' * 2000),
    _raw("100,000 nested lists", b"[" * 100_000 + b"]" * 100_000),
    _raw("2 MiB of zeros", b"[" + b"0," * MIB + b"0]", once=True),
    _raw("4 MiB of spaces", b" " * 4 * MIB, once=True),
    Kind("no field data", lambda message: {b"text": b"hello"}),
    Kind("fields of no encoding", lambda message: {b"\xff\xfe": b"\xff", b"data": b"\xfe"}),
    Kind(
        "wrong types", lambda message: {b"data": json.dumps({key: [] for key in message}).encode()}
    ),
    # What is one, but for a detail.
    _long("3 MiB of prompt", 3 * MIB),
    Kind(
        "500 more fields",
        lambda message: {b"f%d" % n: b"x" for n in range(500)} | {b"data": b"[]"},
    ),
    _with("a half surrogate", '"summary": "\\ud800", "prompt": "\\udfff"'),
    _with("a timeout beyond 64 bits", '"timeout": 99999999999999999999999'),
    _with("a timeout of 5,000 digits", f'"timeout": {"9" * 5000}'),
    _with("a timeout of 1e309", '"timeout": 1e309'),
    _with("a timeout that is NaN", '"timeout": NaN'),
    _with("a timeout of Infinity", '"timeout": -Infinity'),
    _with("a timeout below zero", '"timeout": -1'),
    _with("a timeout in words", '"timeout": "soon"', TIMED),
    _with("260 nested objects", '"data": ' + '{"a":' * 260 + "1" + "}" * 260),
    _with("details 260 deep", '"details": {"a": ' + "[" * 260 + "]" * 260 + "}"),
    Kind(
        "700,000 empty calls",
        lambda message: {b"data": json.dumps(message)[:-1].encode() + CALLS},
        once=True,
    ),
    _with("numbers beyond 64 bits", f'"usage": {{"input_tokens": {"9" * 30}, "cost_usd": 1e309}}'),
    _with("a time that never was", '"timestamp": "yesterday"', STREAMS),
    _with("a time in the year 99999", '"timestamp": 9e15'),
    # What says whose it is in an odd way.
    _attempt("attempt ²", "²".encode()),
    _attempt("attempt of 5,000 digits", b"9" * 5000),
    _attempt("attempt ٣", "٣".encode()),
    _attempt("attempt below zero", b"-1"),
    _attempt("attempt of no encoding", b"\xff\xfe"),
    _attempt("no attempt", b""),
    _attempt("a task of no encoding", b"1", b"\xff\xfe/\xff"),
    _attempt("a task of 10,000 characters", b"1", b"e2e/" + b"x" * 10_000),
    _attempt("a task without a name", b"1", b"e2e/"),
)


def entry_of(size: int, *, fields: int) -> Fields:
    """An entry that counts as so many bytes, most of them in the last of its fields."""
    small = {f"{number:06}".encode(): b"x" for number in range(fields - 1)}
    left = size - len(small) * (FIELD_OVERHEAD_BYTES + 7) - FIELD_OVERHEAD_BYTES - len("data")
    return small | {b"data": b"x" * left}


def malformed(count: int) -> list[Malformed]:
    """That many entries: every kind on every stream, and then those that are small once more."""
    first = [Malformed(stream, kind) for kind in KINDS for stream in STREAMS]
    return [entry for entry, _ in zip(_first_and_again(first), range(count), strict=False)]


def _first_and_again(entries: list[Malformed]) -> Iterator[Malformed]:
    yield from entries
    while True:
        yield from (entry for entry in entries if entry.unreadable and not entry.kind.once)
