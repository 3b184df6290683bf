"""What a receiver of notifications is sent: a CloudEvent, signed as Standard Webhooks sign. Pure.

The courier sends what has become of objects, `kubectl orbiter notify test` a test, and both write
it here. The id is the event's and not the attempt's: who gets it twice has it once.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from orbiter_contracts.webhook_signatures import ID, SIGNATURE, TIMESTAMP, signed_message

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
TEST_TYPE: Final = "dev.orbiter.test"
MAX_EVENT_BYTES: Final = 64 * 1024
"""As large as receivers of CloudEvents have to take them at least."""
MOST_KEYS: Final = 4
"""Of one receiver: the one in use, and others while it is changed."""
_PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bytes of a key, as Standard Webhooks say."""
_LONGEST_SECRET: Final = 1024
_SPACE: Final = re.compile(r"[ \t\r\n,]+")
_NO_KEY: Final = (
    f"has no signing key: write {_PREFIX} and the Base64 of {_SHORTEST} to {_LONGEST} random bytes"
)


def source_of(namespace: str, plural: str, name: str, base: str = "") -> str:
    """The `source` of an object's events: a reference to it.

    Args:
        namespace: The object's.
        plural: Of its kind, for instance `agenttasks`.
        name: Its name.
        base: What tells this cluster from others, for instance `https://prod.example.com`.
    """
    return f"{base.rstrip('/')}/namespaces/{namespace}/{plural}/{name}"


def cloud_event(
    *, identifier: str, source: str, kind: str, subject: str, time: datetime, data: dict[str, Any]
) -> bytes:
    """A CloudEvent in its structured form.

    Args:
        identifier: What is the same when it is sent again.
        source: See `source_of`.
        kind: Its type, `dev.orbiter.agenttask.completed`.
        subject: The object's name.
        time: When it has happened.
        data: What there is to say, bounded by who makes it.

    Raises:
        ValueError: It has more than `MAX_EVENT_BYTES`.
    """
    when = time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event = {
        "specversion": "1.0",
        "id": identifier,
        "source": source,
        "type": kind,
        "subject": subject,
        "time": when,
        "datacontenttype": "application/json",
        "data": data,
    }
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    body = text.encode("utf-8", "replace")
    if len(body) > MAX_EVENT_BYTES:
        raise ValueError(f"an event has {len(body)} bytes, {MAX_EVENT_BYTES} at most")
    return body


def read_signing_keys(text: str) -> tuple[str, ...]:
    """The keys in a Secret: one, or several with space between them, which all sign.

    Args:
        text: What the Secret has under its key, whoever has written it.

    Raises:
        ValueError: There is none, or one of them is none. What was written is not told.
    """
    keys = tuple(filter(None, _SPACE.split(text[: _LONGEST_SECRET + 1])))
    if not keys or len(keys) > MOST_KEYS or len(text) > _LONGEST_SECRET:
        raise ValueError(_NO_KEY if len(keys) <= MOST_KEYS else f"has more than {MOST_KEYS} keys")
    for key in keys:
        try:
            size = len(base64.b64decode(key.removeprefix(_PREFIX), validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if not key.startswith(_PREFIX) or not _SHORTEST <= size <= _LONGEST:
            raise ValueError(_NO_KEY)
    return keys


def signed_headers(
    keys: Sequence[str], identifier: str, seconds: int, body: bytes
) -> dict[str, str]:
    """The headers of a request.

    Args:
        keys: Of `read_signing_keys`.
        identifier: The event's id.
        seconds: Since 1970, when this request is made.
        body: The event.
    """
    when = str(seconds)
    signatures = [signed_message(key, identifier, when, body) for key in keys]
    return {
        "content-type": CONTENT_TYPE,
        ID: identifier,
        TIMESTAMP: when,
        SIGNATURE: " ".join(signatures),
    }
