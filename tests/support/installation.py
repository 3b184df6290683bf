"""Orbiter on the cluster as the tests on it need it: the chart's values, and clean namespaces."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cluster import STATE, Cluster
from support.nodes import FIRST
from support.world import CROWDED, NAMESPACE, STRANGERS, World

ROOT = Path(__file__).resolve().parents[2]
SERVERS = "orbiter-test"
MODEL_URL = f"http://model-server.{SERVERS}.svc"
OURS = (NAMESPACE, CROWDED, STRANGERS)
WATCHED = ("default", *OURS)
SETTINGS = (
    f"watchNamespaces={{{','.join(WATCHED)}}}",
    "workers.imagePullTimeoutSeconds=8",
    "workers.terminationGracePeriodSeconds=20",
    f"workers.maxConcurrentJobsByNamespace.{CROWDED}=5",
    f"adoption.namespace={NAMESPACE}",
    "triggers.enabled=true",
    "triggers.webhooks.enabled=true",
    "triggers.courier.enabled=true",
    "triggers.courier.notify.enabled=true",
    # A test has the API server refuse a Job for it.
    "workers.podTemplate.allow={spec.containers[worker].imagePullPolicy}",
)


def door(server: str) -> dict[str, object]:
    """An egress rule for one of the servers, and no other pod beside it."""
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": SERVERS}}
    pods = {"matchLabels": {"app.kubernetes.io/name": server}}
    return {
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "to": [{"namespaceSelector": namespace, "podSelector": pods}],
    }


# Servers of releases of their own show transcripts and artifacts of this one.
REDIS_CLIENTS = [
    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    for name in ("e2e-server", "e2e-doors")
]
DOORS = {name: [door("model-server"), door("git-server")] for name in WATCHED}


def install(*settings: str) -> None:
    """Orbiter as the chart installs it with the tests' settings and these; what runs goes on."""
    command = [sys.executable, str(ROOT / "cluster" / "install.py"), "install"]
    for name in WATCHED:
        command += ["--namespace", name]
    for setting in (*SETTINGS, *settings):
        command += ["--set", setting]
    command += ["--set-json", f"networkPolicy.egressByNamespace={json.dumps(DOORS)}"]
    command += ["--set-json", f"networkPolicy.redisClients={json.dumps(REDIS_CLIENTS)}"]
    subprocess.run(command, check=True)


@contextmanager
def installed(cluster: Cluster, *settings: str) -> Iterator[World]:
    """Orbiter installed with the tests' settings, the servers it talks to, and empty namespaces."""
    install(*settings)
    world = World(cluster)
    install_servers("model-server", "git-server")
    for namespace in OURS:
        credentials(world, namespace)
        clear(world, namespace)
    yield world
    for namespace in OURS:  # so that all of their pods end side by side
        delete(world, namespace, "--wait=false")
    for namespace in OURS:
        clear(world, namespace)


def on_the_node(cluster: Cluster) -> tuple[str, tuple[str, ...]]:
    """The first local node's address, and the command before a server's own to listen there.

    Its network is its own: whoever works for the node is in it.
    """
    (node,) = (n for n in cluster.list_all("nodes") if n["metadata"]["name"] == FIRST)
    address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    return address, ("nsenter", f"--net=/proc/{_kubelet_pid()}/ns/net", "--")


def _kubelet_pid() -> int:
    """The process that is the kubelet of the local cluster's first node."""
    program = str(STATE / "build" / "programs" / "kubelet")
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = path.joinpath("cmdline").read_text().split("\0")
            if words[0] == program and f"--hostname-override={FIRST}" in words:
                return int(path.name)
    raise AssertionError(f"no process is {program}")


def install_servers(*names: str) -> None:
    """The servers as their manifests say, whatever a demo has told them before."""
    subprocess.run([sys.executable, str(ROOT / "cluster" / "servers.py"), *names], check=True)


def credentials(world: World, namespace: str) -> None:
    """The agent's key for the scripted model, which takes any."""
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "claude-credentials", "namespace": namespace},
            "stringData": {
                "ANTHROPIC_API_KEY": "sk-scripted-key",
                "ANTHROPIC_BASE_URL": MODEL_URL,
            },
        }
    )


def clear(world: World, namespace: str) -> None:
    """Delete all tasks and sessions and wait until their pods are gone too."""
    delete(world, namespace, "--wait=true")
    workers = "app.kubernetes.io/managed-by=orbiter"
    world.until(
        f"no worker pods in {namespace}",
        lambda: not world.cluster.list_all("pods", namespace, workers),
    )


def delete(world: World, namespace: str, *flags: str) -> None:
    """Delete all tasks and sessions of a namespace."""
    world.kubectl("-n", namespace, "delete", "agenttasks,posessions", "--all", *flags)
