"""The pod of a KubernetesSandbox and the line that runs a command in it; nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orbiter.sandbox.sandbox import WORKSPACE
from orbiter.sandbox.types import Limits

CONTAINER = "sandbox"
LABEL = "orbiter.dev/sandbox"
_USER = 1000
_BLOCK = 512
# process 1: it waits, and buries the dead that nobody else does
_WAIT = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
# The command gets exactly its stdin, since an exec stream cannot be half closed. `kill -9 -1` ends
# all that is left of it: whoever may be killed but process 1 and this shell.
_RUN = """ulimit -f "$1" 2>/dev/null; ulimit -n "$2" 2>/dev/null
seconds=$3 bytes=$4; shift 4
head -c "$bytes" | timeout -s KILL "$seconds" "$@"
code=$?
kill -9 -1 2>/dev/null
exit $code"""
CLEAN = ["/bin/sh", "-c", "kill -9 -1 2>/dev/null; exit 0"]


def pod(
    name: str,
    *,
    image: str,
    pull_policy: str,
    env: Mapping[str, str],
    limits: Limits,
    cpu: str,
    runtime_class: str | None,
    lifetime: int,
) -> dict[str, Any]:
    """Return the pod, which the Restricted Pod Security Standard admits."""
    variables = {"HOME": WORKSPACE, "LANG": "C.UTF-8", **env}
    spec: dict[str, Any] = {
        "restartPolicy": "Always",  # out of memory, the container begins anew and keeps its files
        "activeDeadlineSeconds": lifetime,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": pull_policy,
                "command": ["/bin/sh", "-c", _WAIT],
                "workingDir": WORKSPACE,
                "env": [{"name": key, "value": value} for key, value in variables.items()],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {
                    "requests": {"cpu": "50m", "memory": "64Mi"},
                    "limits": {"cpu": cpu, "memory": str(limits.memory_bytes)},
                },
                "volumeMounts": [
                    {"name": "workspace", "mountPath": WORKSPACE},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                ],
            }
        ],
        "volumes": [
            {"name": "workspace", "emptyDir": {"sizeLimit": str(limits.disk_bytes)}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": str(limits.tmp_bytes)}},
        ],
    }
    if runtime_class is not None:
        spec["runtimeClassName"] = runtime_class
    labels = {
        "app.kubernetes.io/name": "orbiter-sandbox",
        "app.kubernetes.io/managed-by": "orbiter",
        LABEL: name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def no_network(name: str, pod_uid: str) -> dict[str, Any]:
    """Return the policy that lets nothing in or out of the pod, and goes with it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "podSelector": {"matchLabels": {LABEL: name}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def line(argv: Sequence[str], stdin: int, timeout: float, limits: Limits) -> list[str]:
    """Return the command of an exec: `argv` within its limits, and then the end of all it left.

    Args:
        argv: What to run.
        stdin: How many bytes are sent to it.
        timeout: Seconds.
        limits: For files.
    """
    blocks = max(1, limits.file_bytes // _BLOCK)
    numbers = [str(blocks), str(limits.open_files), f"{timeout:.3f}", str(stdin)]
    return ["/bin/sh", "-c", _RUN, "sh", *numbers, *argv]
