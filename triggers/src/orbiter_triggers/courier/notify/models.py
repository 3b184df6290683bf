"""A notification: one event for one receiver, as it waits in Redis."""

from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

from pydantic import Field, StringConstraints

from orbiter_contracts.bounds import Moment
from orbiter_contracts.cloud_events import MAX_EVENT_BYTES
from orbiter_contracts.notify import Occasion, Sink
from orbiter_operator.kube.models import Frozen

DAY: Final = timedelta(days=1)
"""How long is tried; and what is older when it is first seen is not told at all."""
_Line = Annotated[str, StringConstraints(max_length=512)]


class Subject(Frozen):
    """The object that something is told of."""

    kind: _Line
    plural: _Line
    namespace: _Line
    name: _Line
    uid: _Line


class Lane(NamedTuple):
    """What is told in its order: everything of one object for one receiver."""

    namespace: str
    uid: str
    sink: str


class Notification(Frozen):
    """What one receiver is to be told.

    Attributes:
        identifier: The event's id, the same for all receivers and all tries.
        occasion: Why it is told.
        subject: The object.
        sink: The receiver.
        time: When it has happened.
        event: The CloudEvent.
        noted: When it was first seen here.
        due: When to send it, again after a try that failed.
        tries: How often it was sent.
        refusals: How often it was refused, of these.
        why: What came of the last try.
    """

    identifier: _Line
    occasion: Occasion
    subject: Subject
    sink: Sink
    time: Moment
    event: Annotated[str, StringConstraints(max_length=MAX_EVENT_BYTES)]
    noted: Moment
    due: Moment
    tries: int = Field(0, ge=0)
    refusals: int = Field(0, ge=0)
    why: _Line = ""

    @property
    def lane(self) -> Lane:
        """With what it is told in order."""
        return Lane(self.subject.namespace, self.subject.uid, self.sink.identity)

    @property
    def field(self) -> str:
        """Its name in the hash of its object."""
        return f"{self.sink.identity}/{self.identifier}"

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """By which it comes before another of its lane."""
        return self.time, self.noted, self.identifier
