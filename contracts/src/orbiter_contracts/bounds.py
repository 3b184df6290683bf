"""How large, how deep and how far a message may go: the one home of these figures and their types.

The message classes are made of these types, so a message that exists can be sent: it is valid JSON,
and no number in it is beyond what Kubernetes, Redis and other people's programs read. What comes
from a stranger and is out of range is refused with a reason; what an agent made, `clamping`
brings into range first.
"""

import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import to_json

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The largest `data` of an entry.

The largest input is a prompt from a ConfigMap (1 MiB, the API server's limit) with the answers of
its AgentTask (1.5 MiB, etcd's limit of an object), and JSON writes some characters as two bytes.
"""
MAX_MESSAGE_VALUES: Final = 100_000
"""Values of a whole message, about: ten times `MAX_DATA_VALUES`. A million empty lists, of 4 MiB,
take their reader seven seconds and 200 MB."""
MAX_ENTRY_BYTES: Final = MAX_MESSAGE_BYTES + 64 * 1024
"""The largest entry that a reader takes from a stream: the largest message with its routing fields.
A larger one is a dead letter, unread."""
FIELD_OVERHEAD_BYTES: Final = 64
"""What each field of an entry costs its reader beside its two texts, and counts in its size."""
DEAD_LETTER_BYTES: Final = 64 * 1024
"""How much of an entry that nobody can use is kept in its dead letter."""
DEAD_LETTER_FIELDS: Final = 100
DEAD_LETTERS_KEPT: Final = 10_000
"""How many dead letters a stream has at most; the oldest go first."""
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""The largest output a worker publishes, as JSON: 256 Ki characters of text, four bytes each.

The rest of the way to MAX_MESSAGE_BYTES is for workers of earlier versions, which had no bound.
"""
MAX_TIMEOUT_SECONDS: Final = 604_800
"""A week: the most that `spec.timeoutSeconds` of an AgentTask allows."""
MAX_COUNT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exact (RFC 8259, section 6)."""
MAX_COST_USD: Final = 1e9
"""No turn costs a billion dollars: whoever says so has not counted."""
COST_DIGITS: Final = 9
"""Digits behind the point of a cost in US dollars: finer than what any token costs."""
MAX_ID_CHARACTERS: Final = 512
MAX_NAME_CHARACTERS: Final = 253
"""What the resource definitions allow for names, `taskId`, `projectId`, a branch or a tag."""
MAX_LINE_CHARACTERS: Final = 2048
"""What the resource definition allows for a URL."""
MAX_SETUP_CHARACTERS: Final = 32_768
"""Of `workspace.setup`; it becomes an argument, of which Linux takes 128 KiB."""
MAX_DATA_DEPTH: Final = 64
"""JSON readers give up from about a hundred levels on, pydantic's at 200."""
MAX_DATA_VALUES: Final = 10_000
"""A value of three bytes costs its reader sixty."""
MAX_DATA_BYTES: Final = 256 * 1024
"""As JSON; with the text beside it, it still fits into an object of Kubernetes (1.5 MiB)."""
MAX_WARNINGS: Final = 50
MAX_WARNING_CHARACTERS: Final = 200
MAX_STATUS_LINE: Final = 140
"""The message of a status: what a column of a terminal has room for."""

INT64: Final = 2**63
"""Integers of 64 bits are from minus this on and below it."""
_UNSHOWN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


def printable(text: Any) -> Any:
    """A text without halves of characters (lone surrogates), which cannot be sent."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def shortened(text: str, characters: int) -> str:
    """A text's beginning and end, with a word of what was left out between; at most so long."""
    text = printable(text)
    if len(text) <= characters:
        return text
    gap = f" [{len(text)} characters, cut] "
    if characters <= 2 * len(gap):
        return text[: characters - 1] + "…"
    head = (characters - len(gap)) // 2
    return text[:head] + gap + text[len(text) - (characters - len(gap) - head) :]


def one_line(text: str, longest: int = MAX_STATUS_LINE) -> str:
    """The text as one line of at most `longest` characters, cut with an ellipsis.

    A space is where a character was that no line has: one that controls a terminal, turns the
    others around or is a tag that nobody sees. What joins letters and pictures stays.
    """
    if not text.isprintable():
        text = _UNSHOWN.sub(" ", printable(text))
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def data_problem(value: Any) -> str | None:
    """Why a JSON value cannot be part of a message, in words; None when it can.

    Measured with 1,401 values, CPU: 640 µs here, 250 with pydantic's JsonValue, which takes 150
    levels, 20,000 values, NaN, half characters and integers of 80 bits.
    """
    level: list[Any] = [value]
    values = 0
    for _ in range(MAX_DATA_DEPTH + 1):
        if not level:
            break
        values += len(level)
        if values > MAX_DATA_VALUES:
            return f"has more than {MAX_DATA_VALUES} values"
        for one in level:
            if problem := _scalar_problem(one):
                return problem
        level = [part for one in level for part in _parts(one)]
    else:
        if level:
            return f"is nested more than {MAX_DATA_DEPTH} deep"
    if len(to_json(value)) > MAX_DATA_BYTES:
        return f"is longer than {MAX_DATA_BYTES} bytes as JSON"
    return None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _scalar_problem(value: Any) -> str | None:
    if isinstance(value, str):
        return "has half a character (a lone surrogate)" if printable(value) != value else None
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is NaN or infinite"
    if isinstance(value, int) and not -INT64 <= value < INT64:
        return "has an integer beyond 64 bits"
    if value is None or isinstance(value, int | float | dict | list):
        return None
    return f"has a value of type {type(value).__name__}, which JSON does not have"


def _sane_data(value: dict[str, Any]) -> dict[str, Any]:
    if problem := data_problem(value):
        raise ValueError(problem)
    return value


def _sane_moment(value: datetime) -> datetime:
    """A moment without a time zone is meant in UTC: Python's `utcnow().isoformat()` has none."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    if not _EARLIEST <= aware < _LATEST:
        raise ValueError(f"is not between {_EARLIEST.year} and {_LATEST.year}")
    return aware.astimezone(UTC)


def _few(value: Any) -> Any:
    """Warnings are prose: what is too much of them is cut and never refused.

    Cut before they are looked at: each of a million wrong ones would be an error of its own.
    """
    if not isinstance(value, list):
        return value
    kept = [
        shortened(one, MAX_WARNING_CHARACTERS) if isinstance(one, str) else one
        for one in value[:MAX_WARNINGS]
    ]
    if (more := len(value) - MAX_WARNINGS) > 0:
        kept[-1] = f"and {more + 1} warnings more"
    return kept


_whole = BeforeValidator(printable)
# These may become arguments, variables or names, and none of those can hold a NUL.
_no_nul = Field(pattern=r"^[^\x00]*$")
Text = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_BYTES), _whole]
Line = Annotated[str, StringConstraints(max_length=MAX_LINE_CHARACTERS), _no_nul, _whole]
Id = Annotated[str, StringConstraints(max_length=MAX_ID_CHARACTERS), _no_nul, _whole]
Name = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARACTERS), _no_nul, _whole]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Int64 = Annotated[int, Field(ge=-INT64, lt=INT64)]
Cost = Annotated[float, Field(ge=0, le=MAX_COST_USD, allow_inf_nan=False)]
Seconds = Annotated[int, Field(gt=0, le=MAX_TIMEOUT_SECONDS)]
Moment = Annotated[datetime, AfterValidator(_sane_moment)]
Data = Annotated[dict[str, Any], AfterValidator(_sane_data)]
Warnings = Annotated[list[Text], BeforeValidator(_few)]
