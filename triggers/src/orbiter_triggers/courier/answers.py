"""GitHub's answers: bounded, then JSON, then something or the reason why there is nothing."""

import asyncio
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import aiohttp
from pydantic_core import from_json

from orbiter_contracts.bounds import one_line
from orbiter_contracts.json_text import too_many_values
from orbiter_triggers.courier.rate_limits import GithubBusyError

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
MAX_VALUES: Final = 200_000
"""Values of an answer, about: a hundred pull requests have 50,000."""
BUSY_SECONDS: Final = 10.0
"""When to ask again a server that has failed."""
_LONG: Final = 65_536
_SAID: Final = 200
_ERRORS: Final = 3


class GithubError(Exception):
    """GitHub refuses, and asking again does not mend that.

    Attributes:
        status: Of its answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"GitHub has answered {status}: {message}")
        self.status = status


class AnswerTooLargeError(Exception):
    """An answer is larger than is read."""


class Answer(NamedTuple):
    """What GitHub has answered: `body` is JSON, None for 304 and for no body."""

    status: int
    body: Any
    etag: str


async def read_json(response: aiohttp.ClientResponse) -> Any:
    """The body as JSON; None for what is none, or has too much in it.

    Raises:
        AnswerTooLargeError: It is larger than is read.
        GithubError: It is compressed.
    """
    if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
        raise GithubError(response.status, "it is compressed, which nobody has asked for")
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise AnswerTooLargeError(f"an answer has more than {MAX_ANSWER_BYTES} bytes")
        parts.append(part)
    text = b"".join(parts)
    return await asyncio.to_thread(_json, text) if len(text) > _LONG else _json(text)


def checked(response: aiohttp.ClientResponse, value: Any, message: str) -> Answer:
    """What somebody can use.

    Args:
        response: Its status and headers.
        value: Its body.
        message: What it says is wrong.

    Raises:
        GithubBusyError: It is no answer, and another time there will be one.
        GithubError: It is a refusal.
    """
    status = response.status
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise GithubBusyError(BUSY_SECONDS, f"GitHub has answered {status}")
    good = status < HTTPStatus.MULTIPLE_CHOICES
    if good and value is None and status != HTTPStatus.NO_CONTENT:
        raise GithubBusyError(BUSY_SECONDS, "GitHub's answer is no JSON that can be read")
    if good or status == HTTPStatus.NOT_MODIFIED:
        etag = response.headers.get("ETag", "")[:_SAID]
        # It is sent and stored as it is.
        return Answer(status, value, etag if etag.isascii() and etag.isprintable() else "")
    if status < HTTPStatus.BAD_REQUEST:
        message = "it is elsewhere, and no redirect is followed: write its present name"
    raise GithubError(status, message)


def said(value: Any) -> str:
    """What an answer says in words, with what is wrong of what was sent."""
    if not isinstance(value, dict):
        return ""
    errors = value.get("errors")
    more = errors if isinstance(errors, list) else []
    told = [value, *(one for one in more[:_ERRORS] if isinstance(one, dict))]
    words = [one["message"] for one in told if isinstance(one.get("message"), str)]
    return one_line(": ".join(words), _SAID)


def outcome_of(status: int) -> str:
    """An answer in one word, to be counted."""
    if status == HTTPStatus.NOT_MODIFIED:
        return "unchanged"
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS):
        return "refused"
    return f"{status // 100}xx"


def _json(text: bytes) -> Any:
    if not text or too_many_values(text, MAX_VALUES):
        return None
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
