"""The life of a local cluster: up, twice, through crashes of everything, and down to nothing.

It has a state directory of its own, so it runs beside a developer's cluster and leaves that alone.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from localcluster.layout import REGISTRY, SOURCES, Layout, from_environment
from localcluster.node import PAUSE_IMAGE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CGROUPS = Path("/sys/fs/cgroup")
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "survivor"},
    "spec": {"containers": [{"name": "pause", "image": PAUSE_IMAGE}]},
}


class Cluster:
    """The tool, called as people call it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.environment = {
            **os.environ,
            "ORBITER_STATE": str(layout.state),
            "CLUSTER": "local",
            "KUBECONFIG": str(layout.kubeconfig),
        }

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(SOURCES / "cluster.py"), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, *arguments: str) -> str:
        with self.begin(*arguments) as process:
            out, _ = process.communicate()
        assert process.returncode == 0, out
        return out

    def pids(self) -> dict[str, list[int]]:
        with self.begin("status", "--json") as process:
            out, _ = process.communicate()
        found: dict[str, list[int]] = json.loads(out)["components"]
        return found

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        done = subprocess.run(
            [self.layout.bin / "kubectl", *arguments],
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def processes(self) -> list[int]:
        listed = CGROUPS.glob(f"**/orbiter-{self.layout.id}/**/cgroup.procs")
        return [int(pid) for path in listed for pid in path.read_text().split()]


def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def commands(pid: int) -> list[str]:
    """The names in a process' command line, of which the first is that of its program."""
    with suppress(FileNotFoundError):
        return [Path(word).name for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
    return []


def reach(address: str, inside_of: int) -> str:
    """What a connection to a pod ends with, made in the network of a process."""
    script = f"import socket; socket.create_connection(('{address}', 1), 5)"
    enter = ["nsenter", f"--net=/proc/{inside_of}/ns/net", "--"]
    done = subprocess.run(
        [*enter, sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    return done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    state = tmp_path_factory.mktemp("a folder") / ".orbiter"
    state.mkdir()
    built = from_environment().build
    if built.exists():
        (state / "build").symlink_to(built)
    cluster = Cluster(Layout(state))
    cluster.call("up")
    yield cluster
    cluster.call("down")


@pytest.fixture(scope="module")
def pod(cluster: Cluster) -> Callable[[], dict[str, Any]]:
    cluster.kubectl("apply", "-f", "-", given=json.dumps(POD))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/survivor", "--timeout=60s")

    def status() -> dict[str, Any]:
        found = json.loads(cluster.kubectl("get", "pod", "survivor", "-o", "json"))
        container: dict[str, Any] = found["status"]["containerStatuses"][0]
        return container

    return status


def test_a_second_up_starts_nothing_and_takes_under_two_seconds(cluster: Cluster) -> None:
    before, started = cluster.pids(), time.monotonic()
    assert "up already" in cluster.call("up")
    assert time.monotonic() - started < 2
    assert cluster.pids() == before


@pytest.mark.parametrize("name", ["etcd", "apiserver", "containerd", "kubelet", "policies"])
def test_up_restarts_only_a_killed_component_and_pods_live_on(
    cluster: Cluster, pod: Callable[[], dict[str, Any]], name: str
) -> None:
    before = cluster.pids()
    os.kill(before[name][0], signal.SIGKILL)
    assert f"starting {name} (" in cluster.call("up")
    after = cluster.pids()
    assert {n for n in after if after[n] != before[n]} == {name}
    assert pod()["restartCount"] == 0


def test_a_component_is_killed_and_started_by_name(cluster: Cluster) -> None:
    before = cluster.pids()["apiserver"]
    cluster.call("kill", "apiserver")
    assert cluster.pids()["apiserver"] == []
    cluster.call("start", "apiserver")
    assert cluster.pids()["apiserver"] not in ([], before)
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"


@pytest.mark.parametrize("name", ["scheduler", "controller-manager"])
def test_a_controller_that_ends_by_itself_begins_again(cluster: Cluster, name: str) -> None:
    def processes() -> list[int]:
        return [pid for pid in cluster.processes() if commands(pid)[:1] == [f"kube-{name}"]]

    before = processes()
    assert len(before) == 1
    os.kill(before[0], signal.SIGTERM)
    eventually(lambda: processes() not in ([], before))


def test_an_image_is_loaded_and_found(cluster: Cluster) -> None:
    cluster.call("load-image", str(cluster.layout.build / "pause.tar"))
    cluster.call("has-image", PAUSE_IMAGE)
    with cluster.begin("has-image", "localhost/orbiter/nothing:dev") as absent:
        pass
    assert absent.returncode == 1


def test_a_second_node_joins_is_lost_comes_back_and_goes(cluster: Cluster) -> None:
    def nodes() -> set[str]:
        listed = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"] for node in listed}

    def of_second() -> dict[str, list[int]]:
        return {name: pids for name, pids in cluster.pids().items() if name.startswith("node2/")}

    before = cluster.pids()
    cluster.call("up", "--nodes", "2")
    assert nodes() == {"local", "local-2"}
    assert {name: cluster.pids()[name] for name in before} == before
    assert "up already" in cluster.call("up")  # as many as before

    there = json.loads(json.dumps(POD))
    there["metadata"]["name"] = "elsewhere"
    there["spec"]["nodeName"] = "local-2"
    cluster.kubectl("apply", "-f", "-", given=json.dumps(there))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/elsewhere", "--timeout=60s")
    address = cluster.kubectl("get", "pod", "elsewhere", "-o", "jsonpath={.status.podIP}")
    assert "refused" in reach(address, before["kubelet"][0])  # by the pod: it hears and says no

    cluster.call("kill", "node2")
    assert not any(of_second().values())
    assert {name: cluster.pids()[name] for name in before} == before
    cluster.call("start", "node2")
    assert all(of_second().values())
    cluster.kubectl("wait", "--for=condition=Ready", "pod/elsewhere", "--timeout=60s")
    assert cluster.kubectl("get", "pod", "elsewhere", "-o", "jsonpath={..restartCount}") == "1"

    cluster.call("up", "--nodes", "1")
    assert nodes() == {"local"}
    assert cluster.pids() == before
    assert not Path(f"/sys/class/net/orb{cluster.layout.id}-2").exists()


def test_after_the_death_of_every_process_up_brings_the_data_back(
    cluster: Cluster, pod: Callable[[], dict[str, Any]]
) -> None:
    for pid in cluster.processes():
        with suppress(ProcessLookupError):  # some end with the one before
            os.kill(pid, signal.SIGKILL)
    cluster.call("up")
    eventually(lambda: bool(pod()["ready"]) and pod()["restartCount"] > 0)


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.4])
def test_an_up_killed_midway_is_continued_by_the_next(cluster: Cluster, seconds: float) -> None:
    cluster.call("down")
    with cluster.begin("up") as process:
        time.sleep(seconds)  # the moment is the point: wherever it is hit, the next must cope
        process.kill()
    cluster.call("up")
    assert "ready" in cluster.call("status")


def test_an_up_killed_when_the_api_server_first_answers_is_continued(cluster: Cluster) -> None:
    cluster.call("down")
    kubectl = [cluster.layout.bin / "kubectl", "get", "--raw", "/readyz"]

    def answers() -> bool:
        return not subprocess.run(
            kubectl, env=cluster.environment, capture_output=True, check=False
        ).returncode

    with cluster.begin("up") as process:
        eventually(answers)
        process.kill()
    cluster.call("up")
    assert "ready" in cluster.call("status")


def test_down_leaves_nothing_behind(cluster: Cluster) -> None:
    cluster.call("down")
    layout = cluster.layout
    assert cluster.processes() == []
    assert list(CGROUPS.glob(f"**/orbiter-{layout.id}")) == []
    assert str(layout.state) not in Path("/proc/self/mountinfo").read_text()
    assert not Path(f"/sys/class/net/orb{layout.id}").exists()
    assert not (REGISTRY / layout.id).exists()
    assert {path.name for path in layout.state.iterdir()} == {"bin", "build", "lock"}
