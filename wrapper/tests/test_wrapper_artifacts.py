"""Artifacts as a whole worker keeps them: what an agent writes outlives its pod."""

import asyncio
import hashlib
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.namespaced import NAMESPACES
from support.queues import RECORD, UID, Queues
from support.s3_server import S3Server, running_s3
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import ArtifactsReport
from orbiter_contracts.artifact_scripts import read_index
from orbiter_contracts.artifacts import MAX_ARTIFACTS, MAX_REDIS_BYTES, Artifacts
from orbiter_contracts.object_store import VARIABLES
from orbiter_contracts.queues import artifacts_of

pytestmark = [
    pytest.mark.integration,
    pytest.mark.parametrize("namespace", NAMESPACES, indirect=True),
]
KEPT = artifacts_of(RECORD)


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Path:
    digest = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    return s3_server.bucket(f"b-{digest}")


def store_of(server: S3Server, bucket: str, **changes: str) -> dict[str, str]:
    return {
        "ARTIFACTS_ENDPOINT": server.endpoint,
        "ARTIFACTS_BUCKET": bucket,
        "ARTIFACTS_ACCESS_KEY_ID": server.access_key_id,
        "ARTIFACTS_SECRET_ACCESS_KEY": server.secret_access_key,
        **changes,
    }


class Case:
    """One attempt with artifacts, and what came of it."""

    def __init__(self, wrappers: Wrappers, queues: Queues, claude: FakeClaude) -> None:
        self._wrappers = wrappers
        self.queues = queues
        self._claude = claude
        self.printed = ""

    async def run(self, script: str, *patterns: str, **env: str) -> ArtifactsReport:
        """Have the agent do this in an empty directory; the success it was told all the same."""
        self._claude.says("done <result>{}</result>")
        self._claude.does(f"{script}\n{self._claude.behaviour}")
        bound = await self.queues.bound_task(artifacts=list(patterns))
        wrapper = self._wrappers.start(**bound, **env)
        assert await wrapper.exit_code(seconds=120) == 0, wrapper.output
        self.printed = wrapper.output
        output = await self.queues.output()
        assert output.status == "success", output
        assert output.artifacts is not None
        if not output.artifacts.complete:
            assert any(one.startswith("artifacts: ") for one in output.warnings)
        return output.artifacts

    async def index(self) -> Artifacts:
        """What Redis says was kept."""
        index = read_index(await self.queues.redis.hget(KEPT, "index"))
        assert index is not None
        return index


@pytest.fixture
def case(wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude) -> Case:
    return Case(wrappers, queues, fake_claude)


async def test_a_small_file_is_kept_without_a_store(case: Case) -> None:
    report = await case.run("mkdir -p out; printf hello > out/report.md", "out/*.md")
    assert report == ArtifactsReport(count=1, size_bytes=5, names=["out/report.md"])
    [kept] = (await case.index()).files
    assert (kept.name, kept.place, kept.size_bytes) == ("out/report.md", "redis", 5)
    assert kept.sha256 == hashlib.sha256(b"hello").hexdigest()
    assert await case.queues.redis.hget(KEPT, kept.key) == "hello"
    assert 0 < await case.queues.redis.ttl(KEPT) <= 7 * 24 * 3600


async def test_a_task_that_names_none_has_no_report(wrappers: Wrappers, queues: Queues) -> None:
    assert await wrappers.start(**await queues.bound_task()).exit_code(seconds=120) == 0
    assert (await queues.output()).artifacts is None
    assert not await queues.redis.exists(KEPT)


async def test_files_of_an_attempt_that_failed_are_kept(
    case: Case, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    fake_claude.does("printf log > log.txt; exit 1")
    wrapper = wrappers.start(**await queues.bound_task(artifacts=["log.txt"]))
    assert await wrapper.exit_code(seconds=120) == 0
    output = await queues.output()
    assert output.status != "success"
    assert output.artifacts is not None
    assert output.artifacts.names == ["log.txt"]


async def test_with_a_store_files_of_any_size_go_there(
    case: Case, s3_server: S3Server, bucket: Path
) -> None:
    size = 12 * 1024 * 1024 + 7
    report = await case.run(
        f"printf hello > small; head -c {size} /dev/urandom > large",
        *("small", "large"),
        **store_of(s3_server, bucket.name, ARTIFACTS_PREFIX="team/agents"),
    )
    assert (report.reason, report.count, report.size_bytes) == ("Kept", 2, size + 5)
    assert report.store is not None
    assert report.store.bucket == bucket.name
    index = await case.index()
    assert [(file.name, file.place) for file in index.files] == [
        ("large", "store"),
        ("small", "store"),
    ]
    place = bucket / "team/agents/team/tasks" / UID / "1"
    for file in index.files:
        data = (place / file.key).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file.sha256
    assert read_index((place / "index.json").read_bytes()) == index
    assert await case.queues.redis.hkeys(KEPT) == ["index"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ARTIFACTS_SECRET_ACCESS_KEY": "another-secret"}, "StoreRefused"),
        ({"ARTIFACTS_ACCESS_KEY_ID": "nobody-at-all"}, "StoreRefused"),
        ({"ARTIFACTS_ACCESS_KEY_ID": "", "ARTIFACTS_SECRET_ACCESS_KEY": ""}, "StoreRefused"),
        ({"ARTIFACTS_BUCKET": "there-is-none"}, "BucketMissing"),
        ({"ARTIFACTS_ENDPOINT": "http://127.0.0.1:9"}, "StoreUnavailable"),
    ],
)
async def test_a_store_that_does_not_take_them_costs_no_task_and_no_small_file(
    case: Case, s3_server: S3Server, bucket: Path, changes: dict[str, str], reason: str
) -> None:
    report = await case.run(
        "printf hello > small; head -c 2000000 /dev/zero > large",
        *("small", "large"),
        **store_of(s3_server, bucket.name) | changes,
    )
    assert report.reason == reason
    assert report.names == ["small"]
    assert report.store is None
    assert [file.place for file in (await case.index()).files] == ["redis"]
    for secret in ("another-secret", s3_server.secret_access_key):
        assert secret not in case.printed + report.message


async def test_a_full_store_is_said_and_costs_no_task_and_no_small_file(
    case: Case, tmp_path: Path
) -> None:
    # a disk of its own, of 4 MiB, that only the server sees
    buckets = tmp_path / "full" / "buckets"
    mounted = f"mount -t tmpfs -o size=4m full {buckets} && mkdir {buckets}/full-bucket"
    disk = ("unshare", "--map-root-user", "--mount", "sh", "-c", f'{mounted} && exec "$@"', "sh")
    with running_s3(tmp_path / "full", wrapped=disk) as server:
        report = await case.run(
            "head -c 9000000 /dev/urandom > large; printf hello > small",
            *("large", "small"),
            **store_of(server, "full-bucket"),
        )
    assert report.reason in ("StoreFull", "StoreUnavailable")
    assert "small" in report.names
    assert "large" not in report.names


async def test_a_worker_that_has_to_go_tells_its_outcome_before_a_slow_store_answers(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, s3_server: S3Server
) -> None:
    fake_claude.says("done <result>{}</result>")
    fake_claude.does(f"printf x > a\n{fake_claude.behaviour}")
    bound = await queues.bound_task(artifacts=["a"])
    async with stalled() as port:
        store = store_of(s3_server, "bucket", ARTIFACTS_ENDPOINT=f"http://127.0.0.1:{port}")
        wrapper = wrappers.start(**bound, **store, TERMINATION_GRACE_SECONDS="20")
        await eventually(lambda: bool(fake_claude.turns))
        await eventually(lambda: _connected_to(port))
        wrapper.send(signal.SIGTERM)
        assert await wrapper.exit_code(seconds=60) == 0
    output = await queues.output()
    assert output.status == "success"
    assert output.artifacts is not None
    assert output.artifacts.reason == "TimedOut"


def _connected_to(port: int) -> bool:
    """Whether somebody has a connection to that port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[2].endswith(f":{port:04X}") for line in lines)


@asynccontextmanager
async def stalled() -> AsyncIterator[int]:
    """A server that takes connections and never answers."""
    held = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in held:
            writer.transport.abort()


async def test_a_store_that_never_answers_is_given_up_and_small_files_are_kept(
    case: Case, s3_server: S3Server, bucket: Path
) -> None:
    async with stalled() as port:
        endpoint = f"http://127.0.0.1:{port}"
        report = await case.run(
            "printf hello > small",
            "small",
            **store_of(s3_server, bucket.name, ARTIFACTS_ENDPOINT=endpoint),
        )
    assert report.reason == "StoreUnavailable"
    assert report.names == ["small"]


async def test_what_is_hostile_is_left_out_and_said(case: Case, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not the agent's")
    script = f"""
ln -s {secret} link; ln -s {tmp_path} dir; mkfifo pipe; mkdir -p .git out
printf no > .git/config; truncate -s 1T sparse; printf x > "$(printf 'a\\nb')"
printf x > "$(printf 'e\\033[2J')"; printf x > "$(printf 'bad\\377')"; printf yes > out/good
"""
    report = await case.run(script, "**", "/".join(["dir", "secret"]))
    assert report.names == ["out/good"]
    assert report.reason == "LeftOut"
    assert "link" in report.message
    assert "dir/secret" in report.message
    assert "\x1b" not in report.message
    assert "sparse" in report.message


async def test_only_so_many_files_are_kept(case: Case) -> None:
    report = await case.run("i=0; while [ $i -lt 700 ]; do : > f$i; i=$((i+1)); done", "f*")
    assert report.count == MAX_ARTIFACTS
    assert "more than 500 files" in report.message


async def test_a_pattern_that_matches_nothing_is_said(case: Case) -> None:
    report = await case.run("printf x > a", "a", "out/*.pdf")
    assert (report.reason, report.count) == ("NothingFound", 1)
    assert "out/*.pdf" in report.message


async def test_what_redis_has_no_room_for_is_said(case: Case) -> None:
    report = await case.run(
        f"head -c {MAX_REDIS_BYTES} /dev/zero > a; printf x > b; head -c 5000000 /dev/zero > c",
        "*",
    )
    assert (report.reason, report.names) == ("TooLarge", ["a"])
    assert "'b'" in report.message
    assert "'c'" in report.message


async def test_the_agent_sees_nothing_of_the_store(
    case: Case, fake_claude: FakeClaude, s3_server: S3Server, bucket: Path
) -> None:
    await case.run("printf x > a", "a", **store_of(s3_server, bucket.name))
    [turn] = fake_claude.turns
    assert not {*VARIABLES} & turn.env.keys()
    assert s3_server.secret_access_key not in json.dumps(turn.env)


async def test_a_worker_without_a_record_says_that_it_keeps_none(
    wrappers: Wrappers, queues: Queues
) -> None:
    await queues.task(artifacts=["a"])
    assert await wrappers.start().exit_code(seconds=120) == 0
    output = await queues.output()
    assert output.artifacts is not None
    assert output.artifacts.reason == "NoRecord"


async def test_the_aws_variables_of_an_agent_are_not_those_of_the_store(
    case: Case, s3_server: S3Server, bucket: Path
) -> None:
    theirs = {"AWS_SESSION_TOKEN": "theirs", "AWS_ACCESS_KEY_ID": "theirs"}
    report = await case.run("printf x > a", "a", **store_of(s3_server, bucket.name), **theirs)
    assert report.complete, report
