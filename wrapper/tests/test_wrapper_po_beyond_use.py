"""A PO that can do no more work ends, so that its container starts afresh; no message is lost."""

import subprocess
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import Queues
from support.wrapper import FakeClaude, WrapperProcess, Wrappers

from orbiter_contracts.queues import BARE, PO_GROUP

pytestmark = pytest.mark.integration


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def start(wrappers: Wrappers, **env: str) -> WrapperProcess:
    return wrappers.start("po-1", WORKER_TYPE="po", SNAPSHOT_KEY=BARE.po_snapshot("po-1"), **env)


@pytest.mark.parametrize(
    "limit", ["--nofile=9:9", "--fsize=9999999", "--as=1", "--nproc=1", "--cpu=1000"]
)
async def test_a_worker_whose_limits_its_agent_lowers_ends_before_the_next_message(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, limit: str
) -> None:
    fake_claude.remembers(
        then=f'[ -e "$home/done" ] || {{ touch "$home/done"; prlimit --pid $PPID {limit}; }}'
    )
    first = start(wrappers)
    for number, prompt in enumerate(("one", "two", "three")):
        await queues.message(prompt, request_id=f"r-{number}")
    assert await first.exit_code() == 1
    second = start(wrappers)
    answers = await queues.answers(3)
    assert [answer.request_id for answer in answers] == ["r-0", "r-1", "r-2"]
    assert answers[-1].status == answers[-2].status == "success"
    await eventually(lambda: queues.is_settled(BARE.po_input("po-1"), PO_GROUP))
    assert second.process.poll() is None


def sabotaged(directory: Path, error: str, times: int) -> str:
    """Where a process finds a turn that fails so many times; what PYTHONPATH has to be."""
    saboteur = directory / "saboteur"
    saboteur.mkdir()
    (saboteur / "sitecustomize.py").write_text(_FAILS.format(error=error, times=times))
    return str(saboteur)


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        ("OSError(24, 'Too many open files')", 1),
        ("OSError(23, 'Too many open files in system')", 1),
        ("OSError(12, 'Cannot allocate memory')", 1),
        ("OSError(27, 'File too large')", 1),
        ("MemoryError()", 1),
        ("ZeroDivisionError('a mistake')", 2),
    ],
)
async def test_a_worker_that_would_fail_at_every_message_ends_and_the_next_answers_the_rest(
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    tmp_path: Path,
    error: str,
    failures: int,
) -> None:
    fake_claude.remembers()
    for number in range(3):
        await queues.message("hi", request_id=f"r-{number}")
    first = start(wrappers, PYTHONPATH=sabotaged(tmp_path, error, 100))
    assert await first.exit_code() == 1
    start(wrappers)
    answers = await queues.answers(3)
    assert [answer.request_id for answer in answers] == ["r-0", "r-1", "r-2"]
    reasons = [answer.reason for answer in answers]
    assert reasons == ["WorkerFailed"] * failures + [None] * (3 - failures)
    await eventually(lambda: queues.is_settled(BARE.po_input("po-1"), PO_GROUP))


def test_a_program_that_cannot_be_started_for_want_of_room_is_no_mistake_of_the_agents(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NO_ROOM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "File too large"


_NO_ROOM = """
import resource, sys
from pathlib import Path
from worker_wrapper.process import run
from worker_wrapper.process.command import Command

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    run._start(Command(argv=("true",), stdin=b"hi"), {}, Path(sys.argv[1]), [])
except OSError as error:
    print(error.strerror)
"""

_FAILS = """
from worker_wrapper.handlers import po_turn

real, left = po_turn.take_turn, {times}

async def take_turn(*arguments, **more):
    global left
    left -= 1
    if left >= 0:
        raise {error}
    return await real(*arguments, **more)

po_turn.take_turn = take_turn
"""
