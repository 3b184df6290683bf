"""Retry: the backoff between attempts, and which reasons are never retried. Pure.

The operator and `orbiter task run` both ask here; `outcome` says what a reason is.
"""

from datetime import timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

NEVER_RETRIED: Final = frozenset(
    {"JobRejected", "InvalidMessage", "Cancelled", "DisruptionLimitExceeded"}
)
"""Reasons of failures that the next attempt would only repeat, or that somebody wanted."""
LONGEST_BACKOFF: Final = timedelta(seconds=600)
_DOUBLINGS: Final = 16
"""Enough for the longest backoff from one second on; 2 to the power of any number is not."""


class RetryPolicy(BaseModel):
    """`spec.retry` of an AgentTask; the resource definition bounds it.

    Attributes:
        limit: Further attempts after the first.
        backoff_seconds: Seconds between the first failure and the second attempt.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    limit: int = 0
    backoff_seconds: int = 10

    @property
    def attempts_allowed(self) -> int:
        """Attempts a task may have in all; those that end with a question do not count."""
        return self.limit + 1

    def repeats(self, reason: str, failures: int) -> bool:
        """Whether another attempt follows a failed one.

        Args:
            reason: Why it failed.
            failures: How many attempts have failed, this one included.
        """
        return failures < self.attempts_allowed and reason not in NEVER_RETRIED

    def backoff(self, failures: int) -> timedelta:
        """How long to wait after so many failures: doubled each time, at most ten minutes."""
        doubled = self.backoff_seconds * 2 ** min(max(failures - 1, 0), _DOUBLINGS)
        return min(timedelta(seconds=doubled), LONGEST_BACKOFF)
