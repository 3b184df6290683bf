"""`kubectl orbiter transcript` where Redis has the end of it, and a store all."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_kubectl import FakeKubectl, a_task, an_object, kubectl
from support.front_end import StubWorker, server, worker
from support.redis_server import RedisServer
from support.s3_server import S3Server
from typer.testing import CliRunner, Result

from orbiter.cli.kubectl.main import app
from orbiter.cli.kubectl.transcript_archive import filled, gaps
from orbiter_contracts.queues import Keys
from orbiter_contracts.stored_transcripts import part_name
from orbiter_contracts.transcript import AnyEvent, CutEvent, TextEvent
from orbiter_contracts.transcript_parts import part_line
from orbiter_contracts.transcript_reading import TranscriptEntry, TranscriptReader, entry_data
from orbiter_contracts.transcript_scripts import APPEND_TRANSCRIPT

__all__ = ["kubectl", "server", "worker"]
KEYS = Keys.of_namespace("default")
AT = datetime(2026, 1, 10, 12, tzinfo=UTC)
TASK = KEYS.task_transcript("uid-hello", 1)


def said(sequence: int, attempt: int = 1) -> TextEvent:
    return TextEvent(sequence=sequence, at=AT, attempt=attempt, text=f"{sequence} ")


def told(numbers: Sequence[int]) -> list[AnyEvent]:
    """What a reader makes of a stream that has these."""
    return TranscriptReader().take(TranscriptEntry(tuple(map(said, numbers))))


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["transcript", *words], catch_exceptions=False)


def numbers(*words: str) -> list[Any]:
    """The sequences that the command gives as JSON, of a cut how much is missing."""
    result = run(*words, "-o", "json")
    assert result.exit_code == 0, result.output
    events = json.loads(result.stdout)["events"]
    return [("cut", e["events"]) if e["type"] == "cut" else e["sequence"] for e in events]


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Path:
    digest = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    return s3_server.bucket(f"k-{digest}")


@pytest.fixture
def cluster(
    kubectl: FakeKubectl, server: RedisServer, s3_server: S3Server, bucket: Path
) -> FakeKubectl:
    """A task whose status says where the store is, and the Secrets of its namespace."""
    store = {"endpoint": s3_server.endpoint, "bucket": bucket.name, "prefix": "x"}
    stored = {"attempt": 1, "reason": "Stored", "events": 9, "bytes": 9, "store": store}
    found = a_task(
        phase="Completed", attempts=1, transcript=stored, inputStream=KEYS.developer_input
    )
    keys = {
        "access-key-id": s3_server.access_key_id,
        "secret-access-key": s3_server.secret_access_key,
    }
    kubectl.has(
        found,
        an_object("Secret", "orbiter-transcript", data={"transcript-url": server.url}),
        an_object("Secret", "orbiter-artifacts", data=keys),
    )
    return kubectl


def append(worker: StubWorker, key: str, *events: AnyEvent) -> None:
    words = (entry_data(events), events[0].sequence, len(events), 0, "")
    worker.redis.eval(APPEND_TRANSCRIPT, 1, key, *words)


def put(bucket: Path, head: str, *events: AnyEvent) -> None:
    place = bucket / head
    place.mkdir(parents=True, exist_ok=True)
    data = gzip.compress(b"".join(map(part_line, events)))
    (place / part_name(events[0].sequence)).write_bytes(data)


HEAD = "x/default/tasks/uid-hello/1/transcript"


@pytest.mark.integration
def test_what_redis_has_no_more_is_read_from_the_store(
    cluster: FakeKubectl, worker: StubWorker, s3_server: S3Server, bucket: Path
) -> None:
    append(worker, TASK, *(said(n) for n in range(8, 12)))
    put(bucket, HEAD, *(said(n) for n in range(6)))
    put(bucket, HEAD, *(said(n) for n in range(6, 10)))
    assert numbers("hello") == [*range(12)]
    assert run("hello").stdout == (
        "# at/hello, attempt 1\n\n" + " ".join(map(str, range(12))) + "\n\n"
    )
    shown = "".join(" ".join(call.argv) for call in cluster.calls)
    assert s3_server.secret_access_key not in shown + run("hello").output


@pytest.mark.integration
def test_when_redis_has_forgotten_it_the_store_has_it(
    cluster: FakeKubectl, worker: StubWorker, bucket: Path
) -> None:
    put(bucket, HEAD, *(said(n) for n in range(3)))
    assert numbers("hello") == [0, 1, 2]


@pytest.mark.integration
def test_a_part_that_a_killed_pod_never_stored_is_missing(
    cluster: FakeKubectl, worker: StubWorker, bucket: Path
) -> None:
    append(worker, TASK, said(9))
    put(bucket, HEAD, said(0), said(1))
    put(bucket, HEAD, said(6), said(7), said(8))
    assert numbers("hello") == [0, 1, ("cut", 4), 6, 7, 8, 9]


@pytest.mark.integration
def test_what_anybody_may_have_written_into_the_store_is_left_out(
    cluster: FakeKubectl, worker: StubWorker, bucket: Path
) -> None:
    append(worker, TASK, said(3))
    put(bucket, HEAD, said(1), said(2))
    (bucket / HEAD / part_name(0)).write_bytes(b"no gzip")
    (bucket / HEAD / "other").write_bytes(b"\xff")
    assert numbers("hello") == [("cut", 1), 1, 2, 3]


@pytest.mark.integration
def test_nothing_is_asked_of_the_store_while_redis_has_all(
    cluster: FakeKubectl, worker: StubWorker
) -> None:
    append(worker, TASK, said(0), said(1))
    cluster.delete("Secret", "orbiter-artifacts")
    assert numbers("hello") == [0, 1]


@pytest.mark.integration
def test_who_may_not_read_the_store_sees_what_redis_has_and_why(
    cluster: FakeKubectl, worker: StubWorker
) -> None:
    append(worker, TASK, said(5))
    cluster.delete("Secret", "orbiter-artifacts")
    result = run("hello")
    assert result.exit_code == 0
    assert "*5 events are missing here*" in result.stdout
    assert "there is no Secret orbiter-artifacts" in result.stderr


@pytest.mark.integration
def test_a_bucket_that_is_not_there_is_said(cluster: FakeKubectl, worker: StubWorker) -> None:
    def elsewhere(task: dict[str, Any]) -> None:
        task["status"]["transcript"]["store"]["bucket"] = "there-is-none"

    append(worker, TASK, said(5))
    cluster.change("AgentTask", "hello", elsewhere)
    result = run("hello")
    assert result.exit_code == 0
    assert "does not list x/default/tasks/uid-hello/1/transcript/: NoSuchBucket" in result.stderr


@pytest.mark.integration
def test_of_a_session_its_deployment_says_where_the_store_is(
    cluster: FakeKubectl, worker: StubWorker, s3_server: S3Server, bucket: Path
) -> None:
    session = an_object("POSession", "alice")
    session["metadata"]["uid"] = "uid-alice"
    session["status"] = {"inputStream": KEYS.po_input("default.alice")}
    head = "default/sessions/uid-alice/transcript"
    env = {
        "ARTIFACTS_ENDPOINT": s3_server.endpoint,
        "ARTIFACTS_BUCKET": bucket.name,
        "ARTIFACTS_TRANSCRIPT": head,
    }
    container = {"name": "worker", "env": [{"name": n, "value": v} for n, v in env.items()]}
    deployment = an_object("Deployment", "alice")
    deployment["spec"] = {"template": {"spec": {"containers": [container]}}}
    cluster.has(session, deployment)
    append(worker, KEYS.po_transcript("default.alice"), said(2, 0))
    put(bucket, head, said(0, 0), said(1, 0))
    assert numbers("pos/alice") == [0, 1, 2]


def test_of_a_whole_transcript_nothing_is_missing() -> None:
    assert gaps(told(range(5))) == []
    assert gaps([]) == [(0, float("inf"))]
    assert gaps(told([3, 4, 8])) == [(0, 3), (5, 8)]
    own = CutEvent(sequence=1, at=AT, attempt=1, events=7)
    assert gaps([said(0), own, said(2)]) == []


def test_what_a_part_had_no_room_for_takes_nothing_from_redis() -> None:
    cut = CutEvent(sequence=2, at=AT, attempt=1, events=2)
    assert filled(told([2, 3]), [said(0), said(1), cut]) == [said(n) for n in range(4)]


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_whatever_both_have_is_there_once_and_the_rest_is_said(
    in_redis: set[int], in_store: set[int]
) -> None:
    found = filled(told(sorted(in_redis)), [said(n) for n in sorted(in_store)])
    assert [e.sequence for e in found if e.type == "text"] == sorted(in_redis | in_store)
    assert found == told(sorted(in_redis | in_store))
