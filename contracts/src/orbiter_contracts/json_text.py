"""JSON that strangers had a part in, made such that every reader of JSON takes it.

An API server hands out whatever was stored: nested ten thousand deep, where readers give up from
two hundred levels on, or a value of every third byte, which costs its reader twenty times its size.
Everything that is read of one goes through here, because a document holds many objects, and a
reader that gives up gives up all of them.

Measured with a Pod of 2.8 kB, CPU: orjson 14 µs, `is_heavy` 3, `bounded` 11, `decode` 31. Alone,
orjson refuses a document of 1,100 levels, pydantic one of 250, and both make 34 MiB of 1.4 MiB of
empty objects.
"""

import math
import re
from array import array
from itertools import accumulate
from typing import Any

from pydantic_core import from_json

from orbiter_contracts.bounds import MAX_DATA_VALUES

MAX_DEPTH = 200
"""Levels of a document. pydantic reads as many, orjson writes 254, Python's own json 990."""
_MEAGER = 16
"""Bytes a value: with fewer, what it is decoded to is many times as large."""
_SMALL = 16_384
"""Bytes that hold hardly more than `MAX_DATA_VALUES` values."""
_DEEP = b'"(left out: nested more than %d deep)"' % MAX_DEPTH
_WIDE = b'"(left out: more than %d values)"' % MAX_DATA_VALUES
# Each pattern takes also what does not end, so that none is tried again from every place in it.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRINGS = re.compile(_STRING, re.DOTALL)
_TOKENS = re.compile(rb'(?:[^"\[\]{},]++|' + _STRING + rb")*+([\[\]{},]|\Z)", re.DOTALL)
_HALVES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_NUMBERS = re.compile(_STRING + rb"|-?[0-9][0-9.eE+-]*+", re.DOTALL)
# Of a number that may be beyond all floats: an exponent of three digits, or 200 digits and any.
# Looked for in a text whose digits are all zeros, which a pattern would take twenty times as long.
_ZEROS = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE_EXPONENT, _LONG_NUMBER = b"0e000", b"0" * 200
_OPENING, _CLOSING = b"[{", b"]}"
_STEPS = bytes.maketrans(_OPENING + _CLOSING, b"\1\1\xff\xff")
_NO_STEPS = bytes(set(range(256)) - set(_OPENING + _CLOSING))


def is_heavy(text: bytes) -> bool:
    """Whether a document has to be cut before it is decoded. Costs next to nothing for most."""
    opening = text.count(b"{") + text.count(b"[")
    if len(text) > _SMALL:
        values = opening + text.count(b",")
        if values > MAX_DATA_VALUES and values * _MEAGER > len(text):
            return True
    if opening <= MAX_DEPTH:
        return False
    steps = array("b", _STRINGS.sub(b"", text).translate(_STEPS, _NO_STEPS))
    return max(accumulate(steps), default=0) > MAX_DEPTH


def too_many_values(text: bytes, most: int) -> bool:
    """Whether a document has more values, about: brackets and commas, but those within texts.

    Costs next to nothing where there are few of these at all, and never a second.
    """
    if _separators(text) <= most:
        return False
    found = at = 0
    for number, string in enumerate(_STRINGS.finditer(text)):
        found += _separators(text[at : string.start()])
        at = string.end()
        if found > most or number > 2 * most:  # of which each pair is a name and a value
            return True
    return found + _separators(text[at:]) > most


def _separators(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def bounded(text: bytes, *, root: int = 1) -> bytes:
    """The same document, without what readers of JSON refuse or cannot hold.

    A value below level `MAX_DEPTH`, and of a crowded document a part of an object's spec (or
    status, or metadata) that has more than `MAX_DATA_VALUES` values, becomes a text that says so:
    whoever checks the field's type refuses it. Bytes that are no UTF-8 and halves of characters
    become U+FFFD, a number beyond all floats becomes a text.

    Args:
        text: The document. What is no JSON stays as it is.
        root: On which level the objects are: 1, or 2 for an event of a watch, or 3 for a list.
    """
    return _cut(_spelled(text), root) if is_heavy(text) else _spelled(text)


def decode(text: bytes, *, root: int = 1) -> Any:
    """Decode a document, whatever somebody has put into its objects; see `bounded`.

    Args:
        text: The document.
        root: On which level the objects are.

    Raises:
        ValueError: It is no JSON.
    """
    return from_json(bounded(text, root=root), allow_inf_nan=False)


def _spelled(text: bytes) -> bytes:
    """Without characters and numbers that cannot be."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    if _HALF.search(text):
        text = _HALVES.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)
    zeros = text.translate(_ZEROS, b"+")
    if _LARGE_EXPONENT in zeros or _LONG_NUMBER in zeros:
        text = _NUMBERS.sub(_finite, text)
    return text


def _finite(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token.startswith(b'"'):
        return token
    try:
        return token if math.isfinite(float(token)) else b'"' + token + b'"'
    except ValueError:
        return token


def _cut(text: bytes, root: int) -> bytes:
    part = root + 2
    kept: list[bytes] = []
    copied = depth = values = deep = wide = 0
    before = (0, 0)
    for token in _TOKENS.finditer(text):
        if not token[1]:
            break
        place = token.start(1)
        sign = text[place]
        if sign in _OPENING:
            depth += 1
            values += 1
            if depth == part:
                wide, values, before = place, 0, (len(kept), copied)
            elif depth == MAX_DEPTH + 1:
                deep = place
        elif sign in _CLOSING:
            depth -= 1
            if depth == MAX_DEPTH:
                kept += text[copied:deep], _DEEP
                copied = place + 1
            elif depth == part - 1 and values > MAX_DATA_VALUES:
                # What was cut inside of it goes with it.
                del kept[before[0] :]
                kept += text[before[1] : wide], _WIDE
                copied = place + 1
        else:
            values += 1
    return b"".join((*kept, text[copied:]))
