"""What can go wrong in a context; every error names the thing."""

from collections.abc import Iterable

from orbiter.types import OrbiterError


class ContextError(OrbiterError):
    """A context was used in a way it cannot serve."""


class ArtifactNotFoundError(ContextError):
    """A workspace file or a knowledge document does not exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        names = ", ".join(sorted(known)) or "none yet"
        super().__init__(f"there is no {kind} '{name}'; there are: {names}")


class CheckpointError(ContextError):
    """A context could not be saved or restored."""

    def __init__(self, task_id: str, problem: str) -> None:
        self.task_id = task_id
        super().__init__(f"checkpoint of task '{task_id}': {problem}")
