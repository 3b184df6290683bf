"""What a Job and a pod say of a worker."""

from datetime import datetime
from typing import Literal, Self

from orbiter_operator.kube.models import Facts

_POD_OVER = ("Succeeded", "Failed")
LOST_AFTER_SECONDS = 30.0
"""A pod that is still there so long after its grace period has a node that no longer answers."""


class JobFacts(Facts):
    """One attempt's Job."""

    name: str
    uid: str
    owner: str
    attempt: int
    created: datetime
    state: Literal["suspended", "active", "complete", "failed"] = "active"
    reason: str = ""
    message: str = ""
    deleting: bool = False

    @property
    def over(self) -> bool:
        """Whether no pod of this Job will ever run again."""
        return self.state in ("complete", "failed")


class PodFacts(Facts):
    """One attempt's Pod, as far as it explains why a worker does or does not run."""

    name: str
    owner: str
    attempt: int
    job: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    deleted_at: datetime | None = None
    node: str = ""
    unschedulable: str | None = None
    image: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_since: datetime | None = None
    running_since: datetime | None = None
    exit_reason: str = ""
    exit_code: int | None = None
    exit_message: str = ""
    disruption: str = ""

    def is_news(self, before: Self | None) -> bool:
        """As for all facts, without the ordinary course of things.

        That a pod was made and got a node leads to its running, and that its container has ended to
        its end. Nothing is done about either before that.
        """
        if before is None:
            before = self.__class__(name=self.name, owner=self.owner, attempt=self.attempt)
        return any(getattr(self, name) != getattr(before, name) for name in _ACTED_ON)

    @property
    def over(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in _POD_OVER

    def lost(self, now: datetime) -> bool:
        """Whether its node has stopped answering: deleted long ago and still there."""
        if self.over or self.deleted_at is None:
            return False
        return (now - self.deleted_at).total_seconds() > LOST_AFTER_SECONDS

    def alive(self, now: datetime) -> bool:
        """Whether its worker may still be working."""
        return not self.over and not self.lost(now)


_ORDINARY = {"job", "node", "image", "exit_reason", "exit_code", "exit_message"}
_ACTED_ON = tuple(name for name in PodFacts.model_fields if name not in _ORDINARY)
