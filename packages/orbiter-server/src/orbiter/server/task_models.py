"""What is asked of the cluster's tasks: one that is to be made, and its events."""

from pydantic import BaseModel, Field

from orbiter.client import NewTask
from orbiter.server.models import NAMESPACE


class NewClusterTask(NewTask):
    """A task that is to be made in a namespace of the cluster; what is null is left to its profile.

    The header `Idempotency-Key` names it, in the place of `name`: the same request made again
    makes no other one.
    """

    namespace: str = Field(pattern=f"^{NAMESPACE}$")

    def task(self) -> NewTask:
        """Return what is wanted, without where."""
        return NewTask.model_validate(self.model_dump(exclude={"namespace"}))


class TaskEventsQuery(BaseModel):
    """The number of the event seen last; `Last-Event-ID` goes before `after`."""

    model_config = {"extra": "forbid", "frozen": True}

    after: int = Field(default=0, ge=0, le=2**53)
