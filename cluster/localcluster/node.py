"""The node's addresses and everything derived from them: pure data for rendering.

The node lives in namespaces of its own (namespaces.py), so only the link to the host can clash
with anything; ports and the pod and service networks are the same in every local cluster.
"""

from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.35.4"
KUBERNETES_MINOR = 35
NODE_NAME = "local"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
MAX_PODS = 300
POLICIES_PORT = 10261
PAUSE_IMAGE = "localhost/orbiter/pause:dev"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"

# Directories that Kubernetes and containerd have fixed in their code. The node sees its own copies.
PRIVATE_DIRECTORIES = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
# Of these, what describes running processes: worthless once the processes are gone.
RUNTIME_DIRECTORIES = ("/run/containerd", "/run/netns", "/var/lib/cni")


@dataclass(frozen=True)
class Node:
    """One local node.

    Attributes:
        id: the cluster's id; names its cgroup and link.
        link: number 0..255 of the point-to-point network between host and node.
        pki: directory of keys and certificates.
        config: directory of rendered configuration files.
        etcd: directory of etcd's data.
        volumes: directory of persistent volumes.
        cni_plugins: directory of the CNI plugins.
        nameservers: where CoreDNS forwards foreign names; none means they do not exist.
    """

    id: str
    link: int
    pki: Path
    config: Path
    etcd: Path
    volumes: Path
    cni_plugins: Path
    nameservers: tuple[str, ...] = ()

    @property
    def host_ip(self) -> str:
        """The host's end of the link."""
        return host_address(self.link)

    @property
    def ip(self) -> str:
        """The node's end of the link: its InternalIP, reachable from host and pods."""
        return node_address(self.link)

    @property
    def cgroup(self) -> str:
        """Root of the node's cgroups."""
        return f"orbiter-{self.id}"

    @property
    def device(self) -> str:
        """The link's name on the host."""
        return f"orb{self.id}"


def host_address(link: int) -> str:
    """The host's address on a link; 198.18.0.0/15 is set aside for closed test networks."""
    return f"198.18.{link}.1"


def node_address(link: int) -> str:
    """The node's address on a link."""
    return f"198.18.{link}.2"
