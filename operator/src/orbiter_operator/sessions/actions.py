"""What a plan for a session may ask for: the words between `session_plan` and its executor."""

from typing import Literal

from orbiter_operator.kube.models import Announce, Facts
from orbiter_operator.sessions.models import SessionStatus


class SetReplicas(Facts):
    """Have the Deployment ask for so many pods."""

    replicas: int


class Apply(Facts):
    """Create the Deployment, or give it the pod template it should have."""

    replicas: int
    create: bool


class SessionPlan(Facts):
    """What to do now, in this order: the step, the Events, the status.

    Attributes:
        step: What to do with the Deployment.
        status: The whole status the session should have; None leaves it alone.
        events: What a person would want to know.
        watch: Look again as soon as a message comes, because nobody else would notice.
        again: Look again at once, because the step has changed what is known.
        later: Look again when the others in the queue have had their turn.
        due: Look again after so many seconds even if nothing happens.
    """

    step: SetReplicas | Apply | None = None
    status: SessionStatus | None = None
    events: tuple[Announce, ...] = ()
    watch: Literal["input", "nothing"] = "nothing"
    again: bool = False
    later: bool = False
    due: float | None = None
