"""How long GitHub wants to be left alone, from what it answers; and who may still ask.

Its page "Best practices for using the REST API" says: after 403 or 429 wait as long as Retry-After
says, or until `x-ratelimit-reset` when nothing remains, and else a minute, which grows; make one
request at a time, and leave a second between writes.
"""

from collections.abc import Callable, Mapping
from typing import Final

LONGEST_SECONDS: Final = 3600.0
"""No limit of GitHub's is longer than the hour it counts in."""
UNSAID_SECONDS: Final = 60.0
RESERVED: Final = 200
"""Requests of an hour that a poll leaves to comments."""
_DIGITS: Final = 12


class GithubBusyError(Exception):
    """GitHub cannot or will not answer now.

    Attributes:
        seconds: When to ask again.
    """

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(why)
        self.seconds = seconds


def number_in(headers: Mapping[str, str], name: str) -> int | None:
    """A whole number in a header; None for anything else."""
    text = headers.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def pause_after(status: int, headers: Mapping[str, str], message: str, now: float) -> float | None:
    """Seconds in which nothing may be asked after an answer; None for no pause.

    Args:
        status: Of the answer.
        headers: Of the answer, by names in any case as the client has them.
        message: What its body says.
        now: Seconds since 1970.
    """
    limited = status in (403, 429)
    if limited and (after := number_in(headers, "Retry-After")) is not None:
        return min(max(float(after), 1.0), LONGEST_SECONDS)
    if number_in(headers, "X-RateLimit-Remaining") == 0:
        reset = number_in(headers, "X-RateLimit-Reset")
        seconds = UNSAID_SECONDS if reset is None else reset - now
        return min(max(seconds, 1.0), LONGEST_SECONDS)
    if status == 429 or (limited and "rate limit" in message.lower()):
        return UNSAID_SECONDS
    return None


class RateLimits:
    """What GitHub has said of its limits.

    Args:
        clock: Seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0
        self._reset = 0.0
        self._refused = 0
        self.remaining: int | None = None

    def check(self, reserved: int = 0) -> None:
        """Refuse to ask while GitHub wants to be left alone.

        Args:
            reserved: How many requests of this hour have to remain for others.

        Raises:
            GithubBusyError: It does, or no more remain.
        """
        now = self._clock()
        if now < self._until:
            raise GithubBusyError(self._until - now, "GitHub's limit of requests is reached")
        if reserved and self.remaining is not None and self.remaining <= reserved:
            if now < self._reset:
                why = f"{self.remaining} requests of this hour remain, which comments need"
                raise GithubBusyError(min(self._reset - now, LONGEST_SECONDS), why)
            self.remaining = None

    def learn(self, status: int, headers: Mapping[str, str], message: str) -> None:
        """Take in what an answer says.

        Raises:
            GithubBusyError: It is the answer to one request too many.
        """
        now = self._clock()
        self.remaining = number_in(headers, "X-RateLimit-Remaining")
        reset = float(number_in(headers, "X-RateLimit-Reset") or 0)
        self._reset = min(reset, now + LONGEST_SECONDS)
        pause = pause_after(status, headers, message, now)
        if status not in (403, 429):
            self._refused = 0
        if pause is None:
            return
        if status in (403, 429) and "Retry-After" not in headers and self.remaining != 0:
            pause = min(pause * 2**self._refused, LONGEST_SECONDS)
            self._refused = min(self._refused + 1, 6)
        self._until = max(self._until, now + pause)
        if status in (403, 429):
            raise GithubBusyError(pause, f"GitHub has answered {status} and waits {pause:.0f} s")
