"""Where a receiver is and what signs for it: read of Secrets each time, so that a change counts."""

import base64
import binascii
from typing import Final, NamedTuple

from orbiter_contracts.cloud_events import read_signing_keys
from orbiter_contracts.notify import Sink, read_sinks
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.resources import SECRETS

_MOST: Final = 4096
"""Bytes of a value in a Secret."""


class SetupError(Exception):
    """A person has to mend something; the text is a sentence, and nothing secret is in it."""


class Address(NamedTuple):
    """A receiver as a request goes there."""

    url: str
    keys: tuple[str, ...]


async def address_of(kube: Kube, namespace: str, sink: Sink) -> Address:
    """The address of a receiver and its signing keys.

    Args:
        kube: The API client.
        namespace: The object's.
        sink: The receiver.

    Raises:
        SetupError: A Secret is not there, may not be read, or has something else in it.
        ApiError: The API server could not answer, now.
    """
    signing, source, url = sink.secret_ref, sink.url_from_secret, sink.url
    values = await _values(kube, namespace, signing.name)
    try:
        keys = read_signing_keys(_value(values, signing.name, signing.key))
    except ValueError as error:
        raise SetupError(f"Secret {signing.name}, key {signing.key}: it {error}") from None
    if source is not None:
        if source.name != signing.name:
            values = await _values(kube, namespace, source.name)
        url = _value(values, source.name, source.key).strip()
        try:
            read_sinks([{"url": url, "secretRef": {"name": signing.name}}])
        except ValueError:
            text = f"Secret {source.name}, key {source.key}: it has no http(s) URL"
            raise SetupError(text) from None
    assert url is not None  # noqa: S101 - a Sink has one or the other
    return Address(url, keys)


async def _values(kube: Kube, namespace: str, name: str) -> dict[str, object]:
    try:
        found = (await kube.get(SECRETS, namespace, name)).get("data")
    except ApiError as error:
        if error.status == 404:
            raise SetupError(f"there is no Secret {name}; make it") from None
        if error.status == 403:
            raise SetupError(
                f"Secret {name} may not be read: name one of those that the chart lists in "
                "triggers.courier.notify.secretNames"
            ) from None
        raise
    except TRANSPORT_ERRORS as error:
        raise ApiError(503, "ServiceUnavailable", type(error).__name__) from None
    return found if isinstance(found, dict) else {}


def _value(values: dict[str, object], name: str, key: str) -> str:
    if key not in values:
        raise SetupError(f"Secret {name} has no key {key}")
    try:
        raw = base64.b64decode(str(values[key]), validate=True)
        text = raw.decode() if len(raw) <= _MOST else ""
    except (binascii.Error, ValueError):
        text = ""
    if not text:
        raise SetupError(f"Secret {name}, key {key}: it is no text of at most {_MOST} bytes")
    return text
