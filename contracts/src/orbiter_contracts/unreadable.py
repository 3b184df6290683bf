"""What can still be said of a message that nobody can read: who asked, and by what name.

So that whoever sent it hears that it came to nothing. Everything here is total and bounded:
whatever was sent, a value is found or is not. Pure.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import TypeAdapter

from orbiter_contracts.bounds import Id, Int64, Name
from orbiter_contracts.queues import DATA_FIELD

_SEARCHED: Final = 256 * 1024
"""How many characters of a message are searched."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[][{}:]|[^][{}:",\s]+', re.DOTALL)
"""A text goes to the end if nothing ends it: were it tried from each of its quotes, that would take
the square of its length."""
_ID, _NAME, _USER = TypeAdapter(Id), TypeAdapter(Name), TypeAdapter(Int64)


def request_id(fields: Mapping[str, str]) -> str | None:
    """The message's `request_id`, if it has one that an answer can carry."""
    return _text(fields, "request_id", _ID)


def task_id(fields: Mapping[str, str]) -> str | None:
    """The message's `task_id`, if it has one that an answer can carry."""
    return _text(fields, "task_id", _ID)


def project_id(fields: Mapping[str, str]) -> str | None:
    """The message's `project_id`, if it has one that an answer can carry."""
    return _text(fields, "project_id", _NAME)


def user_id(fields: Mapping[str, str]) -> int | None:
    """The message's `user_id`, if it is a number."""
    try:
        return _USER.validate_json(_found(fields, "user_id"))
    except ValueError:
        return None


def _text(fields: Mapping[str, str], name: str, kind: TypeAdapter[str]) -> str | None:
    try:
        return kind.validate_python(json.loads(_found(fields, name))) or None
    except (ValueError, RecursionError):
        return None


def _found(fields: Mapping[str, str], name: str) -> str:
    """The JSON of a member of the message's outermost object; "" when it is not found.

    A reader of JSON gives up where it is nested too deep or ends too early, so this is none: it
    only knows texts from what is between them.
    """
    depth, last, named, found = 0, "", False, ""
    for token in _TOKEN.finditer(fields.get(DATA_FIELD, "")[:_SEARCHED]):
        text = token[0]
        if text in "{[":
            depth += 1
        elif text in "}]":
            depth -= 1
        elif depth == 1 and named:
            found = text
        named = depth == 1 and text == ":" and last == f'"{name}"'
        last = text
    return found
