"""JSON as the database and clients take it: UTF-8, whatever agents and their tools have said.

A tool may well return half a character (a lone surrogate): Python has file names that are no UTF-8
so. The one writer of all runs must not stop at it.
"""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from orbiter.server.models import Conversation
from orbiter.types import Message

conversation: TypeAdapter[Conversation] = TypeAdapter(Conversation)


def to_json(value: Any) -> str:
    """Write a value as JSON; half a character becomes U+FFFD, two that stand together are one."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def messages_json(messages: Iterable[Message]) -> str:
    """Write messages as `conversation` reads them."""
    return to_json(conversation.dump_python(list(messages), mode="json"))
