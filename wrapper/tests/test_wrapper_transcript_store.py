"""A whole transcript in the store: what Redis has no room for, and no outcome that waits for it."""

import asyncio
import hashlib
import json
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import RECORD, UID, Queues
from support.s3_server import S3Server
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import DeveloperWorkerOutput
from orbiter_contracts.queues import BARE, transcript_of
from orbiter_contracts.stored_transcripts import part_first
from orbiter_contracts.transcript import TRANSCRIPT_BYTES, AnyEvent, TextEvent
from orbiter_contracts.transcript_parts import read_part
from worker_wrapper.transcript.parts import Parts

pytestmark = pytest.mark.integration
in_namespaces = pytest.mark.parametrize("namespace", NAMESPACES, indirect=True)
HEAD = f"x/team/tasks/{UID}/1/transcript"
SECRET = "a-secret-of-the-task"
AT = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


def delta(text: str) -> dict[str, Any]:
    inner = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": inner}


def says(lines: int) -> str:
    """A script of an agent that says so many lines of 1,000 letters, each with its number."""
    event = json.dumps(delta("@ " + "x" * 1000 + f" {SECRET}\n"))
    printed = shlex.quote(event.replace("\\", "\\\\").replace("%", "%%").replace("@", "%s"))
    return f"n=0; while [ $n -lt {lines} ]; do printf {printed}'\\n' $n; n=$((n+1)); done"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Path:
    digest = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    return s3_server.bucket(f"t-{digest}")


def store_of(server: S3Server, bucket: str, head: str = HEAD) -> dict[str, str]:
    return {
        "ARTIFACTS_ENDPOINT": server.endpoint,
        "ARTIFACTS_BUCKET": bucket,
        "ARTIFACTS_TRANSCRIPT": head,
        "ARTIFACTS_ACCESS_KEY_ID": server.access_key_id,
        "ARTIFACTS_SECRET_ACCESS_KEY": server.secret_access_key,
        "AGENT_ENV": "OWN_KEY",
        "SECRET_ENV": "OWN_KEY",
        "OWN_KEY": SECRET,
    }


def stored(bucket: Path, head: str = HEAD) -> list[list[AnyEvent]]:
    """The parts in the store, in their order."""
    found = []
    for path in sorted((bucket / head).glob("*.jsonl.gz")):
        events = list(read_part([path.read_bytes()]))
        assert events[0].sequence == part_first(path.name)
        found.append(events)
    return found


def text_of(events: list[AnyEvent]) -> str:
    return "".join(event.text for event in events if event.type == "text")


async def worked(
    wrappers: Wrappers, queues: Queues, claude: FakeClaude, script: str, **env: str
) -> DeveloperWorkerOutput:
    """What a task says whose agent does this and succeeds."""
    claude.says("done <result>{}</result>")
    claude.does(f"{script}\n{claude.behaviour}")
    wrapper = wrappers.start(**await queues.bound_task(), **env)
    assert await wrapper.exit_code(seconds=120) == 0, wrapper.output
    output = await queues.output()
    assert output.status == "success", output
    for secret in (SECRET, env.get("ARTIFACTS_SECRET_ACCESS_KEY") or SECRET):
        assert secret not in wrapper.output
    return output


@in_namespaces
async def test_all_of_it_is_in_the_store_and_no_secret(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    place = store_of(s3_server, bucket.name)
    output = await worked(wrappers, queues, fake_claude, f"{says(100)}; sleep 0.7", **place)
    assert output.warnings == []
    assert output.transcript is not None
    assert output.transcript.reason == "Stored"
    assert output.transcript.store is not None
    (events,) = stored(bucket)
    assert output.transcript.events == len(events)
    said = text_of(events)
    assert [f"{number} xxx" in said for number in range(100)] == [True] * 100
    assert SECRET not in said
    assert [event.sequence for event in events] == [*range(len(events))]
    assert events[-1].type == "verdict"


@in_namespaces
async def test_what_redis_has_dropped_is_in_the_store(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    place = store_of(s3_server, bucket.name)
    # in pieces, so that what waits for Redis has room
    script = "; sleep 1; ".join([says(100)] * 4)
    await worked(wrappers, queues, fake_claude, f"{script}; sleep 1", **place)
    entries: Any = await queues.redis.xrange(transcript_of(RECORD))
    first = json.loads(entries[0][1]["data"])[0]["sequence"]
    assert first > 0
    (events,) = stored(bucket)
    assert [event.sequence for event in events] == [*range(len(events))]
    assert len(text_of(events)) > TRANSCRIPT_BYTES


@in_namespaces
@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"ARTIFACTS_SECRET_ACCESS_KEY": "another-secret"}, {"StoreRefused"}),
        ({"ARTIFACTS_BUCKET": "there-is-none"}, {"BucketMissing"}),
        ({"ARTIFACTS_ENDPOINT": "http://127.0.0.1:9"}, {"StoreUnavailable", "Late"}),
    ],
)
async def test_a_store_that_does_not_take_it_is_a_warning(
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    s3_server: S3Server,
    bucket: Path,
    changes: dict[str, str],
    reasons: set[str],
) -> None:
    place = store_of(s3_server, bucket.name) | changes
    output = await worked(wrappers, queues, fake_claude, says(1), **place)
    assert output.transcript is not None
    assert output.transcript.reason in reasons
    (warning,) = output.warnings
    assert warning == f"transcript: {output.transcript.message}"
    assert stored(bucket) == []


@asynccontextmanager
async def a_store_that_never_answers() -> AsyncIterator[str]:
    over = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        over.set()
        server.close()


async def test_no_outcome_waits_for_a_store_that_never_answers(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    async with a_store_that_never_answers() as endpoint:
        place = store_of(s3_server, bucket.name) | {"ARTIFACTS_ENDPOINT": endpoint}
        wrapper = wrappers.start(**await queues.bound_task(), **place)
        output = await queues.output()
        assert output.status == "success"
        assert wrapper.process.poll() is None  # it still tries
        assert output.transcript is not None
        assert output.transcript.reason == "Late"
        wrapper.send(signal.SIGTERM)
        await wrapper.exit_code(seconds=60)


@in_namespaces
async def test_without_credentials_there_is_none_and_no_warning(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    nobody = {"ARTIFACTS_ACCESS_KEY_ID": "", "ARTIFACTS_SECRET_ACCESS_KEY": ""}
    place = store_of(s3_server, bucket.name) | nobody
    output = await worked(wrappers, queues, fake_claude, says(1), **place)
    assert (output.transcript, output.warnings) == (None, [])


@in_namespaces
async def test_a_session_stores_a_part_for_each_turn(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    head = "team/sessions/uid-1/transcript"
    place = store_of(s3_server, bucket.name, head)
    fake_claude.remembers()
    pod = wrappers.start("po-1", WORKER_TYPE="po", **place)
    for number, prompt in enumerate(("one", "two"), 1):
        await queues.converse(prompt)
        await eventually(lambda number=number: len(stored(bucket, head)) == number)
    pod.send(signal.SIGTERM)
    assert await pod.exit_code() == 0
    parts = stored(bucket, head)
    asked = [[e.text for e in part if e.type == "message"] for part in parts]
    assert asked == [["one"], ["two"]]
    sequences = [event.sequence for part in parts for event in part]
    assert sequences == [*range(len(sequences))]
    assert await queues.redis.exists(BARE.po_transcript("po-1"))


async def test_what_a_session_could_not_store_is_a_warning_of_the_next_answer(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server
) -> None:
    place = store_of(s3_server, "there-is-none", "team/sessions/uid-1/transcript")
    fake_claude.remembers()
    pod = wrappers.start("po-1", WORKER_TYPE="po", **place)
    await queues.message("one", request_id="r-1")
    await queues.finals(1)
    await pod.logged("transcript_not_stored")
    await queues.message("two", request_id="r-2")
    first, second = await queues.finals(2)
    assert (first.status, first.warnings) == ("success", [])
    assert second.status == "success"
    (warning,) = second.warnings
    assert warning.startswith("transcript: ")
    assert "no such bucket" in warning


def said(sequence: int) -> TextEvent:
    return TextEvent(sequence=sequence, at=AT, attempt=1, text="x" * 100)


def test_of_more_than_a_part_may_have_the_rest_is_counted(tmp_path: Path) -> None:
    parts = Parts(tmp_path, most=8 * 1024 + 1000)
    parts.add([said(number) for number in range(20)])
    part = parts.take()
    assert part is not None
    with part.file:
        events = list(read_part(part.chunks()))
    assert (part.first, part.events) == (0, len(events) - 1)
    assert 0 < part.events < 10
    cut = events[-1]
    assert cut.type == "cut"
    assert (cut.sequence, cut.events) == (part.events, 20 - part.events)
    assert parts.take() is None
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_costs_the_part(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "not-there")
    parts.add([said(0), said(1)])
    with pytest.raises(OSError, match="2 events"):
        parts.take()
    assert parts.take() is None
