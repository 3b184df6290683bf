"""Takes known secrets out of what is about to be published (publishing.py) or logged."""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from orbiter_contracts.environment import SECRET_ENV
from orbiter_contracts.mcp_servers import SECRETS as MCP_SECRETS

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH(?!OR))(?!.*_(?:DIR|FILE|PATH|SOCK)$)",
    re.IGNORECASE,
)
_OUR_SETTINGS = frozenset({"SECRET_ENV", "KEY_PREFIX", "SNAPSHOT_KEY", "SESSION_MAX_TOKENS"})
"""Named like secrets, and none: 100000 is a number that people write."""
_HEADERS = re.compile(r"_HEADERS$", re.IGNORECASE)
"""Variables of `Name: value` lines, for instance ANTHROPIC_CUSTOM_HEADERS."""
_SHORTEST = 6
"""Shorter values are no secrets and would blot out ordinary words."""
_TOKEN_FILES = ("AWS_WEB_IDENTITY_TOKEN_FILE",)
"""Variables that name a file whose secret is made anew from time to time."""
_LARGEST_TOKEN = 64 * 1024
_TOKENS = 8
"""So many of the last ones stay known."""
_GIT_SECRETS = ("password", "token", "ssh-privatekey")


class Redactor:
    """Replaces the values it was given.

    Whoever writes the text may know the secrets, and both may be long: each of them is looked for
    by itself, in a time that grows with the text. One pattern of all tries each at each place.
    """

    def __init__(self, values: Iterable[str], files: Iterable[Path] = ()) -> None:
        self._values = tuple(values)
        self._files = dict.fromkeys(files, (0, 0))
        self._tokens = deque[str](maxlen=_TOKENS)
        self._know()
        self._look()

    def _know(self) -> None:
        # A Secret made of a file often ends with a line break that nobody repeats.
        stripped = {value.strip() for value in (*self._values, *self._tokens)}
        known = {value for value in stripped if len(value) >= _SHORTEST}
        self._known = sorted(known, key=len, reverse=True)
        self.__dict__.pop("_borders", None)

    @cached_property
    def _borders(self) -> list[list[int]]:
        return [_borders(secret) for secret in self._known]

    def _look(self) -> None:
        """Learn what is in a file now, if it is another one; what was there stays known."""
        for path, seen in self._files.items():
            with suppress(OSError):
                found = path.stat()
                state = found.st_mtime_ns, found.st_ino
                if state != seen and S_ISREG(found.st_mode):
                    self._files[path] = state
                    with path.open(errors="replace") as file:
                        self._tokens.append(file.read(_LARGEST_TOKEN))
                    self._know()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Redactor":
        """Know the secrets in an environment.

        They are the variables that SECRET_ENV lists or that are named like one, passwords in URLs
        and the values of headers. Those in the files of GIT_CREDENTIALS_DIR are known too: an agent
        could have read them. So are those in files of tokens, as they are made anew.
        """
        values = []
        listed = {name.strip() for name in environ.get(SECRET_ENV, "").split(",")}
        for name, value in environ.items():
            if "://" in value:
                values += _secrets_in_url(value)
            if _HEADERS.search(name):
                values += _secrets_in_headers(value)
            if name.startswith(MCP_SECRETS):  # a header with a scheme, or what a program gets
                values += value.strip().partition(" ")[2], json.dumps(value.strip())[1:-1]
            if name in listed or (name not in _OUR_SETTINGS and _SECRET_NAME.search(name)):
                values.append(value)
        if directory := environ.get("GIT_CREDENTIALS_DIR"):
            values += _secrets_in_files(Path(directory))
        return cls(values, [Path(environ[name]) for name in _TOKEN_FILES if environ.get(name)])

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret."""
        self._look()
        longest = 0
        for secret, borders in zip(self._known, self._borders, strict=True):
            if len(secret) <= longest:
                break
            longest = max(longest, _begun(secret, borders, text[1 - len(secret) :]))
        return longest

    def scrub(self, value: Any) -> Any:
        """The value without the secrets, in whatever text its dicts (keys too) and lists hold."""
        self._look()
        return self._scrub(value)

    def _scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._scrub_text(value)
        if isinstance(value, Mapping):
            return self._scrub_items(value)
        if isinstance(value, list | tuple):
            return [self._scrub(item) for item in value]
        return value

    def _scrub_text(self, text: str) -> str:
        found = sorted(span for secret in self._known for span in _places(secret, text))
        if not found:
            return text
        kept, end = list[str](), 0
        for start, stop in found:
            if start >= end:
                kept += text[end:start], "[redacted]"
            end = max(end, stop)
        return "".join([*kept, text[end:]])

    def _scrub_items(self, items: Mapping[Any, Any]) -> dict[Any, Any]:
        scrubbed: dict[Any, Any] = {}
        for key, item in items.items():
            name = self._scrub(key)
            if name in scrubbed:
                name = f"{name} ({len(scrubbed)})"  # two secrets are two keys still
            scrubbed[name] = self._scrub(item)
        return scrubbed


def _places(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a secret begins and ends in a text."""
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + len(secret))


def _borders(secret: str) -> list[int]:
    """Of each beginning of a secret: how long the longest shorter one is with which it ends.

    It is what Knuth, Morris and Pratt call the failure function.
    """
    borders, length = [0], 0
    for character in secret[1:]:
        while length and secret[length] != character:
            length = borders[length - 1]
        length += secret[length] == character
        borders.append(length)
    return borders


def _begun(secret: str, borders: list[int], text: str) -> int:
    """How long the longest beginning of a secret is with which a shorter text ends."""
    length, at = 0, text.find(secret[0])
    while 0 <= at < len(text):
        while length and secret[length] != text[at]:
            length = borders[length - 1]
        length += secret[length] == text[at]
        at = at + 1 if length else text.find(secret[0], at + 1)
    return length


def _secrets_in_headers(lines: str) -> list[str]:
    """The value of each header, and what of it stands behind a scheme like `Bearer`."""
    values = [line.partition(":")[2].strip() for line in lines.splitlines()]
    return [secret for value in values for secret in (value, value.partition(" ")[2])]


def _secrets_in_url(value: str) -> list[str]:
    try:
        parts = urlsplit(value)
        found = [parts.password, *_secrets_in_options(parts.query)]
    except ValueError:
        return [value]
    return [text for secret in found if secret for text in (secret, unquote(secret))]


def _secrets_in_options(query: str) -> list[str]:
    """Passwords behind the `?` of a Redis URL, such as that of Sentinels."""
    return [secret for name, secret in parse_qsl(query) if name.endswith("password")]


def _secrets_in_files(directory: Path) -> list[str]:
    found = []
    for name in _GIT_SECRETS:
        try:
            found.append((directory / name).read_text(errors="replace").strip())
        except OSError:
            continue
    return found
