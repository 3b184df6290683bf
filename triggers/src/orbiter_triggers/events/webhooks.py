"""Events of any program: a JSON object as it comes, or a CloudEvent (1.0, structured or binary)."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from pydantic_core import to_json

from orbiter_contracts.bounds import shortened
from orbiter_contracts.trigger_events import MAX_DATA, MAX_LABELS, MAX_PATHS
from orbiter_triggers.events.refusals import RefusedRequestError
from orbiter_triggers.events.values import text, texts

_NAMED: Final = (
    *("repository", "author", "number", "title", "body", "url", "branch", "commit", "comment"),
)
"""Fields of an event that a program may write at the top of its object under their own names."""
_ATTRIBUTES: Final = ("id", "source", "type", "specversion")
_VERSION: Final = "1."
_LONGEST: Final = 512


def plain_fields(payload: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object of any program's; its `type` is the kind of the event."""
    named = {name: text(payload, name) for name in _NAMED}
    return named | {
        "kind": text(payload, "type") or text(payload, "event"),
        "comment_id": text(payload, "commentId"),
        "labels": texts(payload.get("labels"), MAX_LABELS),
        "paths": texts(payload.get("paths"), MAX_PATHS + 1),
        "data": _shown(payload),
    }


def is_binary(headers: Mapping[str, str]) -> bool:
    """Whether headers are those of a CloudEvent in binary mode."""
    return "ce-specversion" in headers


def cloud_fields(payload: dict[str, Any], headers: Mapping[str, str] | None) -> dict[str, Any]:
    """The fields of a CloudEvent.

    Args:
        payload: The body: the event, or in binary mode its data.
        headers: In binary mode, where the attributes are.

    Raises:
        RefusedRequestError: An attribute is missing that every CloudEvent has.
    """
    if headers is None:
        attributes = {name: text(payload, name) for name in (*_ATTRIBUTES, "subject")}
        data = payload.get("data")
    else:
        told = {name: headers.get(f"ce-{name}", "") for name in (*_ATTRIBUTES, "subject")}
        attributes = {name: unquote(value, errors="replace") for name, value in told.items()}
        data = payload
    for name in _ATTRIBUTES:
        if not 0 < len(attributes[name]) <= _LONGEST:
            sentence = f"the CloudEvent has no {name} of 1 to {_LONGEST} characters"
            raise RefusedRequestError("malformed", sentence)
    if not attributes["specversion"].startswith(_VERSION):
        raise RefusedRequestError("malformed", "the CloudEvent is none of version 1")
    found = plain_fields(data) if isinstance(data, dict) else {"data": _shown(data)}
    if headers is None:
        # By its specification the same event is one of the same source and id; both are signed.
        same = f"{attributes['source']} {attributes['id']}".encode("utf-8", "replace")
        found["identity"] = hashlib.sha256(same).hexdigest()[:32]
    return found | {
        "kind": attributes["type"],
        "url": found.get("url") or attributes["source"],
        "title": found.get("title") or attributes["subject"],
        # An id counts within its source alone.
        "delivery": attributes["id"],
    }


def _shown(value: Any) -> str:
    return "" if value is None else shortened(to_json(value).decode(), MAX_DATA)
