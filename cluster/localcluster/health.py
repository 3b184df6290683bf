"""Whether a component answers. What a component answers to is its own business to know."""

import socket

from localcluster.kube import Kube
from localcluster.node import Node

PORTS = {
    "apiserver": 6443,
    "controller-manager": 10257,
    "scheduler": 10259,
    "kubelet": 10250,
    "proxy": 10256,
    "coredns": 53,
}


def is_ready(name: str, node: Node, kube: Kube) -> bool:
    """Ask a component; etcd listens only inside the node, so the API server vouches for it."""
    if name == "etcd":
        return not _accepts(node.ip, PORTS["apiserver"]) or kube.get("/readyz/etcd") is not None
    if name == "apiserver":
        return kube.get("/readyz") is not None
    if name == "volumes":
        return True  # it listens to nobody; running is all there is to see
    return _accepts(node.ip, PORTS[name])


def _accepts(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False
