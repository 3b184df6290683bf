"""When to try a failed call again: as late as the server asks, else with growing random pauses."""

from email.utils import parsedate_to_datetime

from orbiter.models.types import ModelError

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
LONGEST_WAIT = 60.0


def is_worth_retrying(status: int | None) -> bool:
    """Whether the same request may succeed later; None stands for a lost connection."""
    return status is None or ModelError("", status=status).retryable


def pause(attempt: int, retry_after: str | None, *, now: float, chance: float) -> float | None:
    """Say how long to wait before the next try.

    Args:
        attempt: Tries that failed, from 1.
        retry_after: The `Retry-After` header: seconds or an HTTP date.
        now: Seconds since the epoch.
        chance: A random number from 0 to 1; spreads clients that failed together.

    Returns:
        Seconds; None when the server asks for more than a minute, which is for the user to decide.
    """
    asked = seconds(retry_after, now)
    if asked is not None:
        return max(asked, 0.0) if asked <= LONGEST_WAIT else None
    longest = min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE)
    return longest * (0.5 + 0.5 * chance)


def seconds(retry_after: str | None, now: float) -> float | None:
    """Read a `Retry-After` header; None for one that says nothing."""
    if not retry_after:
        return None
    try:
        return float(retry_after)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(retry_after).timestamp() - now
    except ValueError:
        return None
