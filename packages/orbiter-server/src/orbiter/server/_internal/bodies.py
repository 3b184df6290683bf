"""Bodies of requests as they arrive: bounded each, of a person and in all, in bytes and in time.

They are held until they have come whole, and whoever sends a byte now and then holds them for long.
"""

import asyncio
import json
import re
from collections import Counter
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.viewer import viewer_of

SECONDS: Final = 60.0
"""In which a body has to arrive."""
AT_ONCE: Final = 16
"""So many of the largest bodies are held at a time."""
OF_A_PERSON: Final = 4
MOST_VALUES: Final = 100_000
"""Of a body as JSON, about: a value of three bytes costs its reader sixty, and all others wait."""
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


class Bodies:
    """Reads bodies.

    Args:
        most: Bytes of one of them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._bytes = 0
        self._persons = Counter[str]()

    async def json(self, request: Request) -> Any:
        """Read a body as JSON.

        Raises:
            RequestError: It is none, or see `read`.
        """
        try:
            return json.loads(await self.read(request))
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the request's body is no JSON: {error}") from None

    async def read(self, request: Request, most: int | None = None) -> bytes:
        """Read a body that is JSON.

        Args:
            request: Whose body it is.
            most: Bytes that it may have, where those are fewer.

        Raises:
            RequestError: It is too long, did not arrive in time, or too many arrive at once.
        """
        most, held, user = min(most or self.most, self.most), 0, viewer_of(request).user
        chunks = list[bytes]()
        try:
            async with asyncio.timeout(SECONDS):
                async for chunk in request.stream():
                    self._count(len(chunk), user)
                    held += len(chunk)
                    if held > most:
                        raise RequestError(
                            413, f"the request is longer than {most} bytes", code="too_large"
                        )
                    self._require_room(user)
                    chunks.append(chunk)
        except ClientDisconnect:
            raise RequestError(400, "the request broke off") from None
        except TimeoutError:
            raise RequestError(
                408, f"the request's body has not arrived within {SECONDS:g} s", code="too_slow"
            ) from None
        finally:
            self._count(-held, user)
        text = b"".join(chunks)
        if _crowded(text):
            raise RequestError(
                413, f"the request has more than {MOST_VALUES} values", code="too_large"
            )
        return text

    def of(self, user: str) -> int:
        """Return how many bytes of somebody's bodies are held."""
        return self._persons[user]

    def _require_room(self, user: str | None) -> None:
        if user is not None and self._persons[user] > OF_A_PERSON * self.most:
            raise RequestError(
                429, f"{user} sends too many long requests at once: one after the other",
                code="busy", retry_after=5,
            )  # fmt: skip
        if self._bytes > AT_ONCE * self.most:
            raise RequestError(
                503, "too many long requests arrive at once: try again", code="busy", retry_after=5
            )

    def _count(self, by: int, user: str | None) -> None:
        self._bytes += by
        if user is not None:
            self._persons[user] += by
            if not self._persons[user]:
                del self._persons[user]


def _crowded(text: bytes) -> bool:
    """Say whether a body has too many values; brackets and commas within its texts are none."""
    if _separators(text) <= MOST_VALUES:
        return False
    found = at = 0
    for number, string in enumerate(_STRINGS.finditer(text)):
        found += _separators(text[at : string.start()])
        at = string.end()
        if found > MOST_VALUES or number > 2 * MOST_VALUES:
            return True
    return found + _separators(text[at:]) > MOST_VALUES


def _separators(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))
