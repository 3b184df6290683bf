"""Whether a component answers. What a component answers to is its own business to know."""

import socket
from typing import Any

from localcluster.kube import API_PORT, KUBELET_PORT, Kube
from localcluster.node import POLICIES_PORT, Node

PORTS = {
    "controller-manager": 10257,
    "scheduler": 10259,
    "proxy": 10256,
    "policies": POLICIES_PORT,
}


def is_ready(name: str, node: Node) -> bool:
    """Ask a component."""
    kube = Kube(node)
    if name == "etcd":
        # It listens only inside the node, so the API server vouches for it.
        return not _accepts(node.ip, API_PORT) or kube.get("/readyz/etcd") is not None
    if name == "apiserver":
        return kube.get("/readyz") is not None
    if name == "kubelet":
        return _knows_its_pods(node, kube)
    if name == "volumes":
        return True  # it listens to nobody; running is all there is to see
    return _accepts(node.ip, PORTS[name])


def _knows_its_pods(node: Node, kube: Kube) -> bool:
    # Until a restarted kubelet has read its pods it denies that they exist.
    expected = kube.get(f"/api/v1/pods?fieldSelector=spec.nodeName={node.name}")
    if expected is None:  # no API server to learn of pods from
        return _accepts(node.ip, KUBELET_PORT)
    known = Kube(node, KUBELET_PORT).get("/pods")
    return known is not None and _uids(expected) <= _uids(known)


def _uids(pods: dict[str, Any]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods["items"] or []}


def _accepts(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:
        return False
