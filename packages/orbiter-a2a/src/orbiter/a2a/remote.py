"""What is known of agents that run elsewhere: their tasks, and how they fail."""

from dataclasses import dataclass

from orbiter.tasks import TaskState
from orbiter.types import OrbiterError


class RemoteAgentError(OrbiterError):
    """A remote agent could not be reached, or failed."""


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A task of a remote agent as it was when it was asked for.

    Attributes:
        id: Its id there; empty when the agent answered by a plain message.
        context_id: The conversation it belongs to, for the next message.
        state: Where it is.
        text: What it has produced so far; a question when it needs input, an error when it failed.
    """

    id: str
    context_id: str
    state: TaskState
    text: str
