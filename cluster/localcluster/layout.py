"""Where everything lives: one directory, so that removing a cluster is removing that directory.

Tools survive `down` (they take minutes to build); `data` is the cluster itself and does not.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "cluster"
REGISTRY = Path("/run/orbiter")


@dataclass(frozen=True)
class Layout:
    """Paths below one state directory, as one node sees them.

    Attributes:
        state: the state directory.
        number: which node of the cluster, from 1; all but the first keep theirs in `data/nodeN`.
    """

    state: Path
    number: int = 1

    def of_node(self, number: int) -> "Layout":
        """The same cluster's paths of another node."""
        return replace(self, number=number)

    @property
    def id(self) -> str:
        """Eight hex digits that name this cluster's cgroup, link and registry entry."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def bin(self) -> Path:
        """Tools for people: kubectl, helm, kind."""
        return self.state / "bin"

    @property
    def build(self) -> Path:
        """What was built from source, with a stamp of its inputs."""
        return self.state / "build"

    @property
    def cni(self) -> Path:
        """The plugins that give a pod its network."""
        return self.build / "cni"

    @property
    def record(self) -> Path:
        """Which cluster is up: kind and addresses."""
        return self.state / "cluster.json"

    @property
    def lock(self) -> Path:
        """Held while a command changes the cluster."""
        return self.state / "lock"

    @property
    def kubeconfig(self) -> Path:
        """Admin access; one file whatever the kind of cluster."""
        return self.state / "kubeconfig"

    @property
    def data(self) -> Path:
        """The local cluster's disk: etcd, images, volumes, logs. Removed by `down`."""
        return self.state / "data"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.data / "pki"

    @property
    def home(self) -> Path:
        """What is the node's alone."""
        return self.data if self.number == 1 else self.data / f"node{self.number}"

    @property
    def config(self) -> Path:
        """Rendered configuration files."""
        return self.home / "config"

    @property
    def logs(self) -> Path:
        """One log file per component."""
        return self.home / "log"

    @property
    def started(self) -> Path:
        """Fingerprints of what each running component was started with."""
        return self.home / "started"

    def node_path(self, path: str) -> Path:
        """Where a directory that the node sees as `path` really lives."""
        return self.home / "node" / path.strip("/").replace("/", "-")


def from_environment(environ: Mapping[str, str] = os.environ) -> Layout:
    """The layout of this checkout, or of ORBITER_STATE when that is set."""
    chosen = environ.get("ORBITER_STATE")
    return Layout(Path(chosen).resolve() if chosen else REPOSITORY / ".orbiter")
