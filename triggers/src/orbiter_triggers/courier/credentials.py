"""What the courier proves by who it is: a token, or the key of a GitHub App with tokens of an hour.

All of it is in files of a mounted Secret, which are read again when they may have changed: nothing
has to be restarted for a new key, and no variable has one.
"""

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

TOKEN, APP, KEY, INSTALLATION = "token", "app-id", "private-key", "installation-id"
_REREAD_SECONDS: Final = 60.0
_EARLY_SECONDS: Final = 300.0
"""A token is made anew so long before its end."""
_TOKEN_SECONDS: Final = 3600.0
_SIGNED_SECONDS: Final = 540
"""GitHub takes ten minutes at most; a minute is for clocks that differ."""
_LONGEST: Final = 16 * 1024
_TOKEN: Final = re.compile(r"[!-~]{1,512}")
_NUMBER: Final = re.compile(r"[0-9A-Za-z._-]{1,64}")


class NoCredentialError(Exception):
    """The Secret has nothing that could be used; the sentence names the key that is wrong."""


class App(NamedTuple):
    """A GitHub App that is installed somewhere."""

    identity: str
    key: str
    installation: str


def read_secret(directory: Path) -> str | App:
    """The token, or the App.

    Raises:
        NoCredentialError: There is neither.
    """
    if (directory / APP).exists():
        app, installation = (_line(directory, name, _NUMBER) for name in (APP, INSTALLATION))
        return App(app, _text(directory, KEY), installation)
    return _line(directory, TOKEN, _TOKEN)


def _text(directory: Path, name: str) -> str:
    try:
        text = (directory / name).read_bytes()[:_LONGEST].decode("ascii")
    except (OSError, ValueError):
        raise NoCredentialError(f"the Secret has no text at the key {name}") from None
    return text


def _line(directory: Path, name: str, pattern: re.Pattern[str]) -> str:
    text = _text(directory, name).strip()
    if not pattern.fullmatch(text):
        raise NoCredentialError(f"what the Secret has at the key {name} is none")
    return text


def signed(app: App, now: float) -> str:
    """A JSON Web Token in the name of an App.

    Raises:
        NoCredentialError: Its key is none.
    """
    import jwt

    told = {"iss": app.identity, "iat": int(now) - 60, "exp": int(now) + _SIGNED_SECONDS}
    try:
        return jwt.encode(told, app.key, algorithm="RS256")
    except (ValueError, TypeError, jwt.PyJWTError):
        raise NoCredentialError(f"the key {KEY} of the Secret is no RSA key as PEM") from None


Ask = Callable[[str, str, str], Awaitable[dict[str, Any]]]
"""Called with method, path and bearer; what GitHub answers to that."""


class GithubCredentials:
    """The token that a request has.

    Args:
        directory: Where the Secret is mounted.
        clock: Seconds since 1970.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._found: str | App | None = None
        self._read_at = 0.0
        self._token = ""
        self._good_until = 0.0
        self._login = ""

    def problem(self) -> str | None:
        """Why nothing can be asked; None when there is a credential."""
        try:
            self._secret()
        except NoCredentialError as error:
            return str(error)
        return None

    async def token(self, ask: Ask) -> str:
        """The token of a request.

        Args:
            ask: Asks GitHub, for a token in the App's name.

        Raises:
            NoCredentialError: There is no credential.
        """
        found = self._secret()
        if isinstance(found, str):
            return found
        if self._clock() >= self._good_until:
            path = f"/app/installations/{found.installation}/access_tokens"
            made = await ask("POST", path, signed(found, self._clock()))
            token = made.get("token")
            if not isinstance(token, str) or not _TOKEN.fullmatch(token):
                raise NoCredentialError("GitHub has made no token for the App")
            self._token = token
            self._good_until = self._clock() + _TOKEN_SECONDS - _EARLY_SECONDS
        return self._token

    async def login(self, ask: Ask) -> str:
        """Under which name GitHub shows what is written with it.

        Raises:
            NoCredentialError: Nobody can be found.
        """
        found = self._secret()
        if not self._login:
            if isinstance(found, App):
                slug = (await ask("GET", "/app", signed(found, self._clock()))).get("slug")
                self._login = f"{slug}[bot]" if isinstance(slug, str) and slug else ""
            else:
                self._login = str((await ask("GET", "/user", found)).get("login") or "")
            if not self._login:
                raise NoCredentialError("GitHub does not say whose credential it is")
        return self._login

    def forget(self) -> None:
        """GitHub does not take it any more: have everything made and read anew."""
        self._good_until = self._read_at = 0.0

    def _secret(self) -> str | App:
        now = self._clock()
        if self._found is None or now - self._read_at > _REREAD_SECONDS:
            found = read_secret(self._directory)
            if found != self._found:
                self._good_until, self._login = 0.0, ""
            self._found, self._read_at = found, now
        return self._found
