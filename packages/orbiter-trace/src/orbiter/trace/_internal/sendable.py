"""Values that every exporter can send: one that cannot be encoded would cost its whole batch."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes

_WORD = 1 << 63


def sent(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that are none, and with texts and numbers that fit."""
    made = {sent_text(str(key)): _value(value) for key, value in attributes.items()}
    return {key: value for key, value in made.items() if value is not None}


def sent_text(text: str) -> str:
    """Return a text that is UTF-8; file names and models bring others along."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _value(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return sent_text(value)
    if kind is bool or kind is float:
        return value
    if kind is int:
        # OTLP's whole numbers have 64 bits
        return value if -_WORD <= value < _WORD else str(value)
    if isinstance(value, list | tuple):
        value = [None if item is None else _value(item) for item in value]
    # None takes the place of what cannot be the value of an attribute
    return BoundedAttributes(attributes={"value": value}).get("value")
