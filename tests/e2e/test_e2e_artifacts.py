"""What an agent writes into an empty directory is there when its pod is gone.

The store is a real S3 server on the node's address.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import STATE
from support.installation import on_the_node
from support.s3_server import S3Server, running_s3
from support.world import NAMESPACE, SYSTEM, World, task

from orbiter_contracts.stream_names import keys_with

RUN = uuid.uuid4().hex[:4]
LARGE = 3_000_000
WRITES = (
    f"[[bash: mkdir out && printf hello > out/report.md && head -c {LARGE} /dev/zero > large]]"
    "\n[[result]]"
)
TIMEOUT = ("--wait", "--timeout", "120s")


def plugin(world: World, *words: str, verb: str = "artifacts") -> str:
    """What `kubectl orbiter artifacts`, or another verb, prints."""
    tools = [str(STATE / "bin"), str(Path(sys.executable).parent)]
    environ = {
        **os.environ,
        "PATH": os.pathsep.join([*tools, os.environ["PATH"]]),
        "KUBECONFIG": str(world.cluster.kubeconfig),
    }
    done = subprocess.run(
        ["kubectl", "orbiter", verb, *words, "-n", NAMESPACE],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def condition(world: World, name: str) -> tuple[str, str]:
    """Status and reason of ArtifactsKept."""
    found = world.status(name)["conditions"]
    return next((c["status"], c["reason"]) for c in found if c["type"] == "ArtifactsKept")


def without_its_pod(world: World, name: str) -> None:
    """Delete the task's Job, and wait until its pod is gone."""
    world.cluster.delete("job", world.status(name)["jobName"], NAMESPACE)
    world.until("the pod is gone", lambda: not world.pods(name))


@pytest.fixture(scope="module")
def store(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A store that workers are told of, with its credentials in the namespace."""
    address, within = on_the_node(world.cluster)
    with running_s3(tmp_path_factory.mktemp("s3"), address=address, wrapped=within) as server:
        server.bucket("agents")
        keys = {
            "access-key-id": server.access_key_id,
            "secret-access-key": server.secret_access_key,
        }
        metadata = {"name": "orbiter-artifacts", "namespace": NAMESPACE}
        world.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}
        )
        chart = str(Path(__file__).parents[2] / "helm" / "orbiter")
        values = {
            "enabled": True,
            "endpoint": server.endpoint,
            "bucket": "agents",
            "insecure": True,
            "port": server.port,
            "peers": [{"ipBlock": {"cidr": f"{address}/32"}}],
        }
        words = ("upgrade", "orbiter", chart, "-n", SYSTEM, "--reuse-values")
        world.cluster.helm(*words, "--set-json", f"artifacts={json.dumps(values)}", *TIMEOUT)
        try:
            yield server
        finally:
            world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *TIMEOUT)
            world.cluster.delete("secret", "orbiter-artifacts", NAMESPACE)


@pytest.mark.timeout(600)
def test_a_small_file_outlives_its_pod_without_a_store(world: World, tmp_path: Path) -> None:
    name = f"art-small-{RUN}"
    world.apply(task(name, "[[bash: printf hello > report.md]]\n[[result]]", artifacts=["*.md"]))
    status = world.wait(name, "Completed")
    assert status["artifacts"]["names"] == ["report.md"]
    assert condition(world, name) == ("True", "Kept")
    without_its_pod(world, name)
    assert "report.md" in plugin(world, name)
    plugin(world, name, "--fetch", str(tmp_path / "got"))
    assert (tmp_path / "got" / "report.md").read_text() == "hello"


@pytest.mark.timeout(600)
def test_what_redis_has_no_room_for_is_a_condition_and_costs_no_task(world: World) -> None:
    name = f"art-large-{RUN}"
    world.apply(task(name, WRITES, artifacts=["out", "large"]))
    status = world.wait(name, "Completed")
    assert status["artifacts"]["names"] == ["out/report.md"]
    assert condition(world, name) == ("False", "TooLarge")


@pytest.mark.timeout(600)
def test_files_of_any_size_outlive_their_pod_in_a_store(
    world: World, store: S3Server, tmp_path: Path
) -> None:
    name = f"art-store-{RUN}"
    world.apply(task(name, WRITES, artifacts=["out", "large"]))
    status = world.wait(name, "Completed")
    assert condition(world, name) == ("True", "Kept"), status
    assert (status["artifacts"]["count"], status["artifacts"]["bytes"]) == (2, LARGE + 5)
    without_its_pod(world, name)
    plugin(world, name, "--fetch", str(tmp_path / "got"))
    assert (tmp_path / "got/out/report.md").read_text() == "hello"
    assert (tmp_path / "got/large").stat().st_size == LARGE


@pytest.mark.timeout(600)
def test_a_whole_transcript_is_in_the_store_when_redis_has_none(
    world: World, store: S3Server
) -> None:
    name = f"art-told-{RUN}"
    world.apply(task(name, "[[bash: echo a-word-of-the-agent]]\n[[result]]"))
    status = world.wait(name, "Completed")
    assert status["transcript"]["reason"] == "Stored", status
    whole = plugin(world, name, verb="transcript")
    assert "a-word-of-the-agent" in whole
    without_its_pod(world, name)
    uid = world.cluster.get("agenttask", name, NAMESPACE)["metadata"]["uid"]
    with world.redis() as redis:
        assert redis.expire(keys_with(status["inputStream"]).task_transcript(uid, 1), 0)  # at once
    assert plugin(world, name, verb="transcript") == whole


@pytest.mark.timeout(600)
def test_bad_credentials_are_a_condition_and_cost_no_task(world: World, store: S3Server) -> None:
    name = f"art-bad-{RUN}"
    secret = {"stringData": {"secret-access-key": "another-one"}}
    world.cluster.patch("secret", "orbiter-artifacts", secret, NAMESPACE)
    world.apply(
        task(name, "[[bash: printf hello > report.md]]\n[[result]]", artifacts=["report.md"])
    )
    status = world.wait(name, "Completed")
    assert condition(world, name) == ("False", "StoreRefused")
    assert status["artifacts"]["count"] == 1
