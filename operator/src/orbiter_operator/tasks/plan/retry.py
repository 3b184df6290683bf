"""When another attempt follows a failed one. Pure."""

from datetime import timedelta

from orbiter_operator.tasks.models import Retry

LONGEST_BACKOFF_SECONDS = 600
_DOUBLINGS = 16


def attempts_allowed(retry: Retry) -> int:
    """How many attempts a task may have in all; those that end with a question do not count."""
    return retry.limit + 1


def backoff(retry: Retry, failures: int) -> timedelta:
    """How long to wait after so many failures: doubled each time, at most ten minutes."""
    doubled = retry.backoff_seconds * 2 ** min(max(failures - 1, 0), _DOUBLINGS)
    return timedelta(seconds=min(doubled, LONGEST_BACKOFF_SECONDS))
