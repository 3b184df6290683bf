"""Puts a remote task together from the events it is told by."""

import json
from collections.abc import Iterable

from a2a.helpers import get_data_parts
from a2a.types.a2a_pb2 import Artifact, Part, StreamResponse, Task, TaskStatus
from a2a.types.a2a_pb2 import TaskState as RemoteState

ENDED = {
    RemoteState.TASK_STATE_COMPLETED,
    RemoteState.TASK_STATE_FAILED,
    RemoteState.TASK_STATE_CANCELED,
    RemoteState.TASK_STATE_REJECTED,
}


class Reply:
    """What is known of a remote task.

    Attributes:
        task_id: Its id; empty when the agent answered by a plain message.
        context_id: The conversation it belongs to.
        state: Its state as the protocol names it.
        said: The text of its status, or of the plain message.
    """

    def __init__(self) -> None:
        self.task_id = ""
        self.context_id = ""
        self.state = RemoteState.TASK_STATE_UNSPECIFIED
        self.said = ""
        self._artifacts: dict[str, str] = {}

    @property
    def text(self) -> str:
        """The text of the artifacts, or what was said when there are none."""
        return "\n\n".join(filter(None, self._artifacts.values())) or self.said

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ENDED

    def take(self, event: StreamResponse) -> str:
        """Take an event and return the piece of text that is new in it."""
        match event.WhichOneof("payload"):
            case "task":
                self.take_task(event.task)
            case "message":
                self.context_id = event.message.context_id
                self.said = text_of(event.message.parts)
                self.state = RemoteState.TASK_STATE_COMPLETED
                return self.said
            case "status_update":
                update = event.status_update
                self.task_id, self.context_id = update.task_id, update.context_id
                self._status(update.status)
            case "artifact_update":
                change = event.artifact_update
                self.task_id, self.context_id = change.task_id, change.context_id
                return self._artifact(change.artifact, append=change.append)
        return ""

    def take_task(self, task: Task) -> None:
        """Take all that is known of the task now."""
        self.task_id, self.context_id = task.id, task.context_id
        self._artifacts = {a.artifact_id: text_of(a.parts) for a in task.artifacts}
        self._status(task.status)

    def _status(self, status: TaskStatus) -> None:
        self.state = status.state
        self.said = text_of(status.message.parts) if status.HasField("message") else ""

    def _artifact(self, artifact: Artifact, *, append: bool) -> str:
        text = text_of(artifact.parts)
        before = self._artifacts.get(artifact.artifact_id)
        self._artifacts[artifact.artifact_id] = (before or "") + text if append else text
        # a part that is begun anew, or another one, stands on lines of its own
        first = not append and any(self._artifacts.values()) and before != text
        others = [v for k, v in self._artifacts.items() if k != artifact.artifact_id and v]
        gap = "\n\n" if first and (before or others) else ""
        return gap + text


def text_of(parts: Iterable[Part]) -> str:
    """Return parts as text; data as JSON, files by their address."""
    texts = []
    for part in parts:
        match part.WhichOneof("content"):
            case "text":
                texts.append(part.text)
            case "data":
                texts.append(json.dumps(get_data_parts([part])[0]))
            case "url":
                texts.append(part.url)
    return "".join(texts)
