"""A node's addresses and everything derived from them: pure data for rendering.

Each node lives in namespaces of its own (namespaces.py), so only its link to the host can clash
with anything; ports and the pod and service networks are the same in every local cluster.
"""

from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.35.4"
KUBERNETES_MINOR = 35
NODE_NAME = "local"
MAX_NODES = 4
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
    """One local node. The first one has the control plane, too.

    Attributes:
        id: the cluster's id; names its cgroup and links.
        links: numbers 0..255 of the point-to-point networks between host and each node, in order.
        pki: directory of keys and certificates.
        config: directory of the node's rendered configuration files.
        etcd: directory of etcd's data.
        volumes: directory of persistent volumes; all nodes see the same one.
        cni_plugins: directory of the CNI plugins.
        nameservers: where CoreDNS forwards foreign names; none means they do not exist.
        number: which node of the cluster this is, from 1.
    """

    id: str
    links: tuple[int, ...]
    pki: Path
    config: Path
    etcd: Path
    volumes: Path
    cni_plugins: Path
    nameservers: tuple[str, ...] = ()
    number: int = 1

    @property
    def is_first(self) -> bool:
        """Whether the control plane is here."""
        return self.number == 1

    @property
    def name(self) -> str:
        """What Kubernetes calls it."""
        return NODE_NAME if self.is_first else f"{NODE_NAME}-{self.number}"

    @property
    def prefix(self) -> str:
        """What stands before the names of its components, for people."""
        return "" if self.is_first else f"node{self.number}/"

    @property
    def link(self) -> int:
        """Number of its own link."""
        return self.links[self.number - 1]

    @property
    def host_ip(self) -> str:
        """The host's end of the link."""
        return host_address(self.link)

    @property
    def ip(self) -> str:
        """The node's end of the link: its InternalIP, reachable from host and pods."""
        return node_address(self.link)

    @property
    def api_ip(self) -> str:
        """Where the API server listens."""
        return node_address(self.links[0])

    @property
    def pod_cidr(self) -> str:
        """The part of the pod network that is its own."""
        return f"10.244.{64 * (self.number - 1)}.0/18"

    @property
    def cgroup(self) -> str:
        """Root of the node's cgroups; those of further nodes are below the first one's."""
        root = f"orbiter-{self.id}"
        return root if self.is_first else f"{root}/node{self.number}"

    @property
    def device(self) -> str:
        """The link's name on the host."""
        return f"orb{self.id}" if self.is_first else f"orb{self.id}-{self.number}"

    @property
    def peer_device(self) -> str:
        """What the first node calls the link to this one."""
        return f"node{self.number}"

    @property
    def peer_ips(self) -> tuple[str, str]:
        """The ends of that link, the first node's before this one's; nobody else sees them."""
        return f"198.19.{self.number}.1", f"198.19.{self.number}.2"


def host_address(link: int) -> str:
    """The host's address on a link; 198.18.0.0/15 is set aside for closed test networks."""
    return f"198.18.{link}.1"


def node_address(link: int) -> str:
    """The node's address on a link."""
    return f"198.18.{link}.2"
