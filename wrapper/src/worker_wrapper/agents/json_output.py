"""Finds the JSON objects among what a CLI printed, however much noise is around them.

The adapters (agents/) use it once the CLI has ended, and turn.py reads lines as they come
(`ObjectLines`). Nothing here holds more than a few megabytes: lines are found by position, and the
long strings of a huge object are cut to their end, where agents put the result.

Measured with a string of 64 MiB: 5 MiB of memory and 33 ms of CPU here; 192 MiB with orjson, and
128 with ijson (2.5 s), since both hold each string whole.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import AgentResult
from worker_wrapper.agents.decoding import loads, name, words
from worker_wrapper.process.output_buffer import OutputBuffer

KEPT_BYTES = 1024 * 1024
"""What is kept of a string in an object that is too large to be read whole: as much as an output
may have."""
_KEPT_OF_MANY_BYTES = 256 * 1024
"""The same, when the object has so many long strings that it would be too large even so."""
_WHOLE_BYTES = 4 * 1024 * 1024
_SHORTENED_BYTES = 8 * 1024 * 1024
_CANDIDATES = 4096
"""Lines that are looked at, from the end, for the last object."""
LONGEST_BYTES: Final = 256 * 1024
"""A line longer than that is skipped while the CLI prints it: what matters comes in short ones."""
_ERRORS = 10


def objects(output: OutputBuffer) -> Iterator[dict[str, Any]]:
    """All lines that are JSON objects, first to last."""
    for start, end in _object_lines(output):
        value = _load(output, start, end)
        if value is not None:
            yield value


def last_object(
    output: OutputBuffer, wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """The last JSON object that is wanted: on a line of its own, or as all that was printed."""
    lines = deque(_object_lines(output), maxlen=_CANDIDATES)
    for start, end in [*reversed(lines), (0, output.size)]:
        value = _load(output, start, end)
        if value is not None and wanted(value):
            return value
    return None


def _object_lines(output: OutputBuffer) -> Iterator[tuple[int, int]]:
    """Positions of the lines that begin with a brace."""
    opened: int | None = None
    position, at_line_start = 0, True
    for chunk in output.chunks():
        if at_line_start and chunk.startswith(b"{"):
            opened = position
        at_line_start = chunk.endswith(b"\n")
        here = 0
        while True:
            if opened is not None:
                end = chunk.find(b"\n", here)
                if end < 0:
                    break
                yield opened, position + end
                opened, here = None, end
            # From a newline on, so that a line right behind the last one is found too.
            found = chunk.find(b"\n{", here)
            if found < 0:
                break
            opened, here = position + found + 1, found + 1
        position += len(chunk)
    if opened is not None:
        yield opened, position


def _load(output: OutputBuffer, start: int, end: int) -> dict[str, Any] | None:
    if end - start <= _WHOLE_BYTES:
        data: bytes | None = output.read(start, end - start)
    else:
        data = shortened(output.chunks(start, end)) or shortened(
            output.chunks(start, end), keep=_KEPT_OF_MANY_BYTES
        )
    try:
        value = loads(data) if data else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def shortened(chunks: Iterable[bytes], *, keep: int = KEPT_BYTES) -> bytes | None:
    """Copy JSON, but of each string only the last `keep` bytes or so.

    Args:
        chunks: The JSON, in pieces of any size.
        keep: What may stay of a string.

    Returns:
        JSON again; or None when even that is too large.
    """
    copy, string, cut, inside = bytearray(), bytearray(), 0, False
    for chunk in chunks:
        here = 0
        while here < len(chunk):
            if not inside:
                quote = chunk.find(b'"', here)
                copy += chunk[here : quote + 1] if quote >= 0 else chunk[here:]
                here = quote + 1 if quote >= 0 else len(chunk)
                inside = quote >= 0
                continue
            quote = _closing_quote(string, chunk, here)
            string += chunk[here : quote if quote >= 0 else len(chunk)]
            here = quote if quote >= 0 else len(chunk)
            if len(string) > 2 * keep or (quote >= 0 and len(string) > keep):
                excess = len(string) - keep
                excess += _escaped(string, excess)
                cut += excess
                del string[:excess]
            if quote >= 0:
                copy += b"[%d bytes left out] " % cut if cut else b""
                copy += string + b'"'
                string.clear()
                cut, inside, here = 0, False, quote + 1
        if len(copy) > _SHORTENED_BYTES:
            return None
    return bytes(copy)


def _closing_quote(string: bytearray, chunk: bytes, start: int) -> int:
    """Where in `chunk` the string ends, or -1; `string` is what of it came before."""
    at = chunk.find(b'"', start)
    while at >= 0:
        first = at
        while first > start and chunk[first - 1] == 0x5C:
            first -= 1
        before = _escaped(string, len(string)) if first == start else 0
        if (at - first + before) % 2 == 0:
            return at
        at = chunk.find(b'"', at + 1)
    return -1


def _escaped(string: bytearray, at: int) -> bool:
    """Whether an odd number of backslashes stands right before a position."""
    first = at
    while first > 0 and string[first - 1] == 0x5C:
        first -= 1
    return (at - first) % 2 == 1


class ObjectLines:
    """Calls `hear` with each object as soon as its line is complete.

    And `miss`, if it is given, with the bytes of each line that is too long for that.
    """

    def __init__(
        self,
        hear: Callable[[Mapping[str, Any]], None],
        miss: Callable[[int], None] | None = None,
    ) -> None:
        self._hear = hear
        self._miss = miss
        self._size = 0
        self._begun = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Take what was printed next."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._begin(line)
            if not self._skipping:
                self._line(bytes(self._begun))
            elif self._miss is not None:
                self._miss(self._size)
            self._size = 0
            self._begun.clear()
            self._skipping = False
        self._begin(rest)

    def _begin(self, piece: bytes) -> None:
        self._size += len(piece)
        if len(self._begun) + len(piece) > LONGEST_BYTES:
            self._skipping = True
            self._begun.clear()
        if not self._skipping:
            self._begun += piece

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            return
        try:
            value = loads(line)
        except ValueError:
            return
        if isinstance(value, dict):
            self._hear(value)


class LastWords:
    """The text an agent says last, from pieces: as much of its end as is kept of a string."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def say(self, text: str, *, opens: bool) -> None:
        """Take a piece; what `opens` puts an end to what was said before."""
        if opens:
            self._pieces, self._size = [], 0
        self._pieces.append(text)
        self._size += len(text)
        if self._size > 2 * KEPT_BYTES:
            self._pieces = [str(self)]
            self._size = len(self._pieces[0])

    def __str__(self) -> str:
        return "".join(self._pieces)[-KEPT_BYTES:]


def find_result(stdout: OutputBuffer) -> dict[str, Any] | None:
    """The object that Claude Code and droid end with; None when none was printed."""
    return last_object(stdout, _is_result)


def _is_result(said: dict[str, Any]) -> bool:
    return said.get("type") == "result" or ("type" not in said and "result" in said)


def read_result(said: dict[str, Any]) -> AgentResult:
    """What the object says, but for what only one CLI knows of."""
    text = words(said.get("result"))
    is_error = said.get("is_error") is True or said.get("subtype", "success") != "success"
    return AgentResult(
        text=text,
        agent_session_id=name(said.get("session_id")),
        usage=_usage(said.get("usage")),
        is_error=is_error,
        error=_error(said, text) if is_error else None,
        # A figure that is none is a slip of the CLI; the model was asked once at least.
        turns=clamped_count(said.get("num_turns"), default=1),
    )


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=clamped_count(usage.get("input_tokens")),
        output_tokens=clamped_count(usage.get("output_tokens")),
        cache_read_tokens=clamped_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=clamped_count(usage.get("cache_creation_input_tokens")),
    )


def _error(said: dict[str, Any], text: str) -> str:
    errors = said.get("errors")
    told = [words(error) for error in errors[:_ERRORS]] if isinstance(errors, list) else []
    subtype = words(said.get("subtype")) or "an error"
    return "; ".join(filter(None, told)) or text or f"the agent ended with {subtype}"
