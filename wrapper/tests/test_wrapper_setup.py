"""`workspace.setup`: what is run in the workspace before the agent starts."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import Workspace
from worker_wrapper.agents import load_agent
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.setup import Place, set_up
from worker_wrapper.turn.turn import TurnReport

OURS = {"PATH": "/usr/bin:/bin", "REDIS_URL": "redis://secret", "ANTHROPIC_API_KEY": "key"}


async def run(
    script: str, directory: Path, *, seconds: float = 60, stop: StopTurn | None = None
) -> tuple[TurnReport | None, float]:
    place = Place(directory, OURS, directory)
    return await set_up(
        *(script, load_agent("claude"), place, seconds, stop or StopTurn()),
        clock=lambda: datetime.now(UTC),
    )


async def test_it_works_in_the_workspace_with_the_agents_environment(tmp_path: Path) -> None:
    report, left = await run("pwd > place\nenv > given", tmp_path)
    assert report is None
    assert 0 < left <= 60
    assert (tmp_path / "place").read_text().strip() == str(tmp_path)
    given = (tmp_path / "given").read_text()
    assert "ANTHROPIC_API_KEY=key" in given
    assert "REDIS_URL" not in given


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo one; echo two >&2; exit 3", "workspace.setup exited with code 3: one\ntwo"),
        ("kill -9 $$", "workspace.setup was killed by signal 9"),
        ("if", "workspace.setup exited with code 2"),
        ("set -e; false; touch on", "workspace.setup exited with code 1"),
    ],
)
async def test_a_failure_is_told_with_the_end_of_what_it_printed(
    script: str, words: str, tmp_path: Path
) -> None:
    report, _ = await run(script, tmp_path)
    assert report is not None
    assert (report.status, report.reason) == ("error", "SetupFailed")
    assert (report.error or "").startswith(words)
    assert not (tmp_path / "on").exists()


async def test_its_time_is_the_attempts(tmp_path: Path) -> None:
    report, left = await run("sleep 1000", tmp_path, seconds=0.2)
    assert report is not None
    assert report.reason == "SetupFailed"
    assert "time was up" in (report.error or "")
    assert left == 1


async def test_who_cancels_the_task_stops_it(tmp_path: Path) -> None:
    stop = StopTurn()
    asyncio.get_running_loop().call_soon(stop.set, "cancelled")
    report, _ = await run("sleep 1000", tmp_path, stop=stop)
    assert report is not None
    assert (report.status, report.reason) == ("cancelled", "Cancelled")


@pytest.mark.integration
async def test_an_agent_begins_behind_it_or_not_at_all(
    wrappers: Wrappers, redis: Redis, fake_claude: FakeClaude
) -> None:
    queues = Queues(redis)
    fake_claude.does('test -e made || exit 9; cat "$home/answer"')
    await queues.task(workspace=Workspace(setup="touch made"))
    await wrappers.start().exit_code()
    assert (await queues.output()).status == "success"
    await queues.task(workspace=Workspace(setup="echo no network; false"))
    await wrappers.start().exit_code()
    output = await queues.output(2)
    assert (output.status, output.reason) == ("error", "SetupFailed")
    assert output.error == "workspace.setup exited with code 1: no network"
    assert len(fake_claude.turns) == 1
