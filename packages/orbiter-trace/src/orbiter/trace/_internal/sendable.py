"""Values that every exporter can send: one that cannot be encoded would cost its whole batch."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes

_WORD = 1 << 63


def sent(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes without those that are none, and with texts and numbers that fit."""
    for key, value in attributes.items():
        if not (_fits(value) and type(key) is str and key.isascii()):
            made = {sent_text(str(key)): _value(value) for key, value in attributes.items()}
            return {key: value for key, value in made.items() if value is not None}
    return attributes


def sent_text(text: str) -> str:
    """Return a text that is UTF-8; file names and models bring others along."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _fits(value: Any) -> bool:
    """Whether it can be sent as it is; of what can be, nearly all is told at first sight."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii())
    if kind is int:
        # OTLP's whole numbers have 64 bits
        return bool(-_WORD <= value < _WORD)
    if kind is tuple:
        return all(type(item) is str and item.isascii() for item in value)
    return kind is float or kind is bool


def _value(value: Any) -> Any:
    if _fits(value):
        return value
    if type(value) is str:
        return sent_text(value)
    if type(value) is int:
        return str(value)
    if isinstance(value, list | tuple):
        value = [None if item is None else _value(item) for item in value]
    # None takes the place of what cannot be the value of an attribute
    return BoundedAttributes(attributes={"value": value}).get("value")
