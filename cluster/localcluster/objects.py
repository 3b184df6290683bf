"""Objects every cluster is expected to have: DNS, and a default StorageClass. Pure."""

from collections.abc import Iterator
from typing import Any

from localcluster import dns
from localcluster import node as facts

RBAC = "rbac.authorization.k8s.io"


def basics(coredns: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield API path and manifest of each object."""
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    yield (
        f"/api/v1/namespaces/{dns.NAMESPACE}/services/kube-dns",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "labels": dns.LABELS},
            "spec": {"clusterIP": facts.DNS_SERVICE_IP, "ports": ports, "selector": dns.LABELS},
        },
    )
    yield dns.PATH, coredns
    yield from _role("system:coredns", [
        _rule("", "endpoints services pods namespaces", "list watch"),
        _rule("discovery.k8s.io", "endpointslices", "list watch"),
    ])  # fmt: skip
    yield from _role("system:network-policies", [
        _rule("", "pods namespaces", "list watch"),
        _rule("networking.k8s.io", "networkpolicies", "list watch"),
    ])  # fmt: skip
    yield from _role("system:volume-provisioner", [
        _rule("", "persistentvolumeclaims", "list watch"),
        _rule("", "persistentvolumes", "list watch create delete"),
    ])  # fmt: skip
    yield (
        "/apis/storage.k8s.io/v1/storageclasses/standard",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "orbiter.dev/directory",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
    )


def _role(user: str, rules: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        f"/apis/{RBAC}/v1/clusterroles/{user}",
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": user},
            "rules": rules,
        },
    )
    yield (
        f"/apis/{RBAC}/v1/clusterrolebindings/{user}",
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        },
    )


def _rule(group: str, resources: str, verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
