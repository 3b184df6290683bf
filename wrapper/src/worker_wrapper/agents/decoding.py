"""Reads the words of an agent and its CLI: the one door by which they come in. Pure and total.

Whatever was printed, nothing here raises more than ValueError, and what comes out can be passed on:
to a message, to Redis, as an argument of the next command.
"""

import json
import re
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from orbiter_contracts.bounds import printable

_HUGE: Final = 4000
"""Digits; Python refuses to read longer integers."""
USABLE_ID: Final = r"^[A-Za-z0-9_][A-Za-z0-9_.:@/-]{0,199}$"
"""What an id that a CLI gave to something must look like to be an argument: no option."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def loads(text: str | bytes) -> Any:
    """Read JSON; an integer of thousands of digits comes as its text.

    Raises:
        ValueError: It is none, or nested deeper than anybody reads.
    """
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        try:
            return json.loads(said)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return json.loads(said, parse_int=_integer)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def words(value: object) -> str:
    """A text that can be sent on; "" for whatever is none."""
    said: str = printable(value) if isinstance(value, str) else ""
    return said


def name(value: object) -> str | None:
    """An id the CLI gave to something; None for what could be no argument of its next command."""
    return value if isinstance(value, str) and re.fullmatch(USABLE_ID, value) else None


def session_uuid(session_id: str) -> str:
    """The id for CLIs that demand a UUID: one as it is, anything else mapped to the same one."""
    if _UUID.fullmatch(session_id):
        return session_id
    return str(uuid5(NAMESPACE_URL, session_id))


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) < _HUGE else digits
