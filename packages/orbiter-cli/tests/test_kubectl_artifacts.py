"""`kubectl orbiter artifacts`: what was kept, and its files on this machine."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_kubectl import FakeKubectl, a_task, an_object, kubectl
from support.front_end import PASSWORD, StubWorker, server, worker
from support.redis_server import RedisServer
from support.s3_server import S3Server
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl import artifact_files
from orbiter.cli.kubectl.main import app
from orbiter_contracts.artifacts import Artifact
from orbiter_contracts.queues import Keys

__all__ = ["kubectl", "server", "worker"]
pytestmark = pytest.mark.integration
KEYS = Keys.of_namespace("default")
RECORD = KEYS.task_artifacts("uid-hello", 1)
HOSTILE = "a\x1b[2Jb"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["artifacts", *words], catch_exceptions=False)


def entry(name: str, data: bytes, place: str = "redis", number: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "key": f"{number:04d}-f",
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "place": place,
    }


def index(*entries: dict[str, Any], store: dict[str, str] | None = None) -> str:
    return json.dumps({"time": "2026-01-10T12:00:00Z", "files": entries, "store": store})


@pytest.fixture
def task(kubectl: FakeKubectl, server: RedisServer) -> FakeKubectl:
    status = {"attempt": 1, "count": 1, "bytes": 5}
    streams = {"inputStream": KEYS.developer_input}
    found = a_task(phase="Completed", attempts=1, artifacts=status, **streams)
    found["spec"]["artifacts"] = ["out"]
    data = {"producer-url": server.url}
    kubectl.has(found, an_object("Secret", "orbiter-producer", data=data))
    return kubectl


def keep(worker: StubWorker, text: str, **fields: bytes) -> None:
    worker.redis.hset(RECORD, mapping={"index": text, **fields})


def test_what_was_kept_is_listed(task: FakeKubectl, worker: StubWorker) -> None:
    keep(worker, index(entry("out/report.md", b"hello")))
    result = run("hello")
    assert result.exit_code == 0, result.output
    assert result.stdout == ("attempt 1 of task hello: 1 files, 5 B\n5 B  redis  out/report.md\n")
    assert PASSWORD not in " ".join(" ".join(call.argv) for call in task.calls)


def test_programs_read_it_as_json(task: FakeKubectl, worker: StubWorker) -> None:
    keep(worker, index(entry("a", b"x")))
    told = json.loads(run("hello", "--json").stdout)
    assert (told["task"], told["attempt"], told["files"][0]["name"]) == ("hello", 1, "a")


def test_small_files_are_fetched_whatever_their_bytes_are(
    task: FakeKubectl, worker: StubWorker, tmp_path: Path
) -> None:
    data = bytes(range(256))
    keep(worker, index(entry("out/a b", data)), **{"0000-f": data})
    result = run("hello", "--fetch", str(tmp_path / "got"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "got/out/a b").read_bytes() == data


def test_large_ones_are_fetched_from_the_store_with_the_namespaces_secret(
    task: FakeKubectl, worker: StubWorker, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = s3_server.bucket("cli-artifacts")
    place = bucket / "default/tasks/uid-hello/1"
    place.mkdir(parents=True)
    data = b"x" * 3_000_000
    (place / "0000-f").write_bytes(data)
    store = {"endpoint": s3_server.endpoint, "bucket": bucket.name}
    keep(worker, index(entry("large", data, "store"), store=store))
    secret = {
        "access-key-id": s3_server.access_key_id,
        "secret-access-key": s3_server.secret_access_key,
    }
    task.has(an_object("Secret", "orbiter-artifacts", data=secret))
    result = run("hello", "--fetch", str(tmp_path / "got"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "got/large").read_bytes() == data
    shown = result.output + "".join(" ".join(call.argv) for call in task.calls)
    assert s3_server.secret_access_key not in shown


def test_what_redis_has_forgotten_the_store_still_knows(
    task: FakeKubectl, worker: StubWorker, s3_server: S3Server
) -> None:
    bucket = s3_server.bucket("cli-forgotten")
    place = bucket / "default/tasks/uid-hello/1"
    place.mkdir(parents=True)
    store = {"endpoint": s3_server.endpoint, "bucket": bucket.name}
    (place / "index.json").write_text(index(entry("large", b"x", "store"), store=store))
    secret = {
        "access-key-id": s3_server.access_key_id,
        "secret-access-key": s3_server.secret_access_key,
    }
    task.has(an_object("Secret", "orbiter-artifacts", data=secret))
    told = {"attempt": 1, "count": 1, "bytes": 1, "store": store}
    task.status("AgentTask", "hello", artifacts=told)
    assert "large" in run("hello").stdout


def test_without_its_secret_the_store_gives_nothing_and_the_command_says_what_to_do(
    task: FakeKubectl, worker: StubWorker, s3_server: S3Server, tmp_path: Path
) -> None:
    store = {"endpoint": s3_server.endpoint, "bucket": "cli-none"}
    keep(worker, index(entry("large", b"x", "store"), store=store))
    result = run("hello", "--fetch", str(tmp_path / "got"))
    assert result.exit_code == 1
    assert "--store-secret" in result.output


def test_damaged_bytes_are_not_left_behind(
    task: FakeKubectl, worker: StubWorker, tmp_path: Path
) -> None:
    keep(worker, index(entry("a", b"hello")), **{"0000-f": b"hellO"})
    result = run("hello", "--fetch", str(tmp_path / "got"))
    assert result.exit_code == 1
    assert "not those that were kept" in result.output
    assert not (tmp_path / "got/a").exists()


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/../../b", HOSTILE, "a\nb"])
def test_an_index_with_a_name_that_leads_elsewhere_is_not_believed(
    task: FakeKubectl, worker: StubWorker, name: str, tmp_path: Path
) -> None:
    keep(worker, index(entry(name, b"x")), **{"0000-f": b"x"})
    result = run("hello", "--fetch", str(tmp_path / "got"))
    assert result.exit_code != 0
    assert "\x1b" not in result.output
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_through_a_link_or_over_a_file(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "dir").symlink_to(outside)
    (root / "file").symlink_to(outside / "new")
    (root / "there").write_text("mine")
    for name in ("dir/a", "file", "there", "there/below"):
        file = Artifact.model_validate(entry(name, b"x"))
        with pytest.raises(artifact_files.NotWrittenError):
            artifact_files.write(root, file, [b"x"])
    assert list(outside.iterdir()) == []
    assert (root / "there").read_text() == "mine"


def test_a_file_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    file = Artifact.model_validate(entry("a", b"x"))
    with pytest.raises(artifact_files.NotWrittenError):
        artifact_files.write(tmp_path, file, iter(lambda: b"x" * 1000, b""))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("spec", "said"),
    [({}, "its spec.artifacts names none"), ({"artifacts": ["a"]}, "when its attempt ends")],
)
def test_a_task_without_any_says_why(kubectl: FakeKubectl, spec: dict[str, Any], said: str) -> None:
    found = a_task(phase="Running")
    found["spec"] |= spec
    kubectl.has(found)
    result = run("hello")
    assert result.exit_code == 3
    assert said in result.output


def test_a_task_that_ended_without_a_worker_has_none_and_says_what_is_left(
    kubectl: FakeKubectl,
) -> None:
    found = a_task(phase="Failed", reason="DisruptionLimitExceeded", attempts=1)
    found["spec"]["artifacts"] = ["a"]
    kubectl.has(found)
    result = run("hello")
    assert result.exit_code == 3
    assert (
        "it is Failed (DisruptionLimitExceeded), and no worker was there at its end to keep them"
        in result.output
    )
    assert "--resume" not in result.output
    kubectl.status("AgentTask", "hello", checkpoint={"turns": 3})
    assert "kubectl orbiter retry hello --resume goes on from there" in run("hello").output


def test_what_is_forgotten_is_said(task: FakeKubectl, worker: StubWorker) -> None:
    result = run("hello", "--attempt", "7")
    assert result.exit_code == 3
    assert "nothing is kept of attempt 7" in result.output
