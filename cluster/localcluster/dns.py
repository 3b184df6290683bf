"""DNS as clusters have it: CoreDNS in a pod, so that NetworkPolicies speak of it. Pure.

Its program is the node's own (toolchain.py), so it needs no image but that of a pause, and the
libraries that the program was linked with. (A static pod would not do: the enforcer of
NetworkPolicies knows pods by the uid that the API server gives them.)
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from localcluster import node as facts
from localcluster.node import Node

NAMESPACE = "kube-system"
LABELS = {"k8s-app": "kube-dns"}
LIBRARIES = ("/lib", "/lib64", "/usr/lib")
"""Where they may be."""
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/coredns"


def corefile(node: Node) -> str:
    """What CoreDNS is told."""
    # Without egress a foreign name does not exist: an answer at once, and one nobody retries.
    rest = "template ANY ANY . {\n    rcode NXDOMAIN\n  }"
    if node.nameservers:
        rest = f"forward . {' '.join(node.nameservers)}"
    kubeconfig = node.config / "coredns.kubeconfig"
    return f"""\
.:53 {{
  errors
  cache 30
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig "{kubeconfig}"
    pods insecure
  }}
  {rest}
}}
"""


def is_ready(deployment: Mapping[str, Any] | None) -> bool:
    """Whether the pod that was last asked for answers."""
    if deployment is None:
        return False
    status, generation = deployment.get("status", {}), deployment["metadata"]["generation"]
    fresh = status.get("observedGeneration") == generation and status.get("updatedReplicas") == 1
    return bool(fresh and status.get("readyReplicas") == 1)


def deployment(node: Node, program: str, libraries: Iterable[str]) -> dict[str, Any]:
    """The Deployment of its one pod.

    Args:
        node: The first node.
        program: The node's program, a file of this machine.
        libraries: Directories of this machine that it needs.
    """
    pki, config = node.pki, node.config
    files = [program, *(str(pki / name) for name in ("ca.crt", "coredns.crt", "coredns.key"))]
    files += [str(config / name) for name in ("Corefile", "coredns.kubeconfig")]
    paths = [(path, "File") for path in files] + [(path, "Directory") for path in libraries]
    container = {
        "name": "coredns",
        "image": facts.PAUSE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/coredns", "-conf", str(config / "Corefile")],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"tcpSocket": {"port": 53}, "periodSeconds": 1, "failureThreshold": 10},
        "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": True},
        "volumeMounts": [
            {
                "name": f"v{number}",
                "mountPath": "/coredns" if path == program else path,
                "readOnly": True,
            }
            for number, (path, _) in enumerate(paths)
        ],
    }
    told = hashlib.sha256(corefile(node).encode()).hexdigest()
    pod = {
        # CoreDNS reads it at its start: a new one is a new pod.
        "metadata": {"labels": LABELS, "annotations": {"orbiter.dev/corefile": told}},
        "spec": {
            "nodeName": node.name,
            "priorityClassName": "system-cluster-critical",
            "dnsPolicy": "Default",  # it would ask itself
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [
                {"name": f"v{number}", "hostPath": {"path": path, "type": kind}}
                for number, (path, kind) in enumerate(paths)
            ],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": NAMESPACE, "labels": LABELS},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": LABELS},
            "template": pod,
        },
    }
