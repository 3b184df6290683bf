"""What every kind of cluster can do: the waist between the command line and the three kinds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Status:
    """How a cluster is doing.

    Attributes:
        kind: local, kind or current.
        ready: whether pods can run.
        detail: one sentence for people.
        components: name -> pids, of the local kind; an empty list is a dead component.
    """

    kind: str
    ready: bool
    detail: str
    components: Mapping[str, list[int]] = field(default_factory=dict)


class Provider(Protocol):
    """One kind of cluster. Methods raise ClusterError with what to do."""

    def up(self) -> None:
        """Bring it up, or what is missing of it; write the kubeconfig."""

    def down(self) -> None:
        """Remove it and everything it left on this machine."""

    def status(self) -> Status:
        """Look, change nothing."""

    def load_image(self, archive: Path) -> None:
        """Make the images of an OCI archive known to the nodes."""

    def has_image(self, name: str) -> bool:
        """Whether the nodes have an image of that name."""

    def kill(self, component: str) -> None:
        """SIGKILL one component, for crash tests."""

    def start(self, component: str) -> None:
        """Start one component (if it is dead) and wait until it is ready."""
