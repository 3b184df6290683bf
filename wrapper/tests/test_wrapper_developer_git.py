"""A developer worker with a git workspace: what its output says about the work."""

import subprocess
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import GitWorkspace, Workspace

pytestmark = pytest.mark.integration

COMMIT = "echo fixed > fix.txt && git add fix.txt && git commit -q -m fix >&2"


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


def git(*arguments: str, at: Path) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=at, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with one commit."""
    bare, draft = tmp_path / "origin.git", tmp_path / "draft"
    draft.mkdir()
    git("init", "-q", "-b", "main", ".", at=draft)
    (draft / "README").write_text("hello\n")
    git("add", ".", at=draft)
    git("commit", "-q", "-m", "first", at=draft)
    git("clone", "-q", "--bare", str(draft), str(bare), at=tmp_path)
    return bare


def commits(claude: FakeClaude, verdict: str = "{}") -> None:
    claude.says(f"<result>{verdict}</result>")
    claude.does(f"{COMMIT}\n{claude.behaviour}")


async def test_the_new_head_is_the_commit_of_an_agent_that_names_none(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    commits(fake_claude)
    await queues.task(workspace=Workspace(git=GitWorkspace(url=str(origin))))
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert output.workspace is not None
    assert output.workspace.base_sha == git("rev-parse", "main", at=origin)
    assert output.commit_sha == output.workspace.head_sha != output.workspace.base_sha
    assert not output.workspace.pushed


async def test_push_always_brings_the_work_to_the_origin(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    commits(fake_claude)
    wanted = GitWorkspace(url=str(origin), branch="agent/fix", push="Always")
    await queues.task(workspace=Workspace(git=wanted))
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert output.status == "success"
    assert output.commit_sha == git("rev-parse", "agent/fix", at=origin)
    assert output.workspace is not None
    assert output.workspace.pushed


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("failure", "failed"), ("in_progress", "failed"), ("input_required", "input_required")],
)
async def test_nothing_is_pushed_unless_the_agent_has_succeeded(
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    origin: Path,
    status: str,
    outcome: str,
) -> None:
    commits(fake_claude, verdict=f'{{"status": "{status}", "question": "?"}}')
    wanted = GitWorkspace(url=str(origin), branch="agent/fix", push="Always")
    await queues.task(workspace=Workspace(git=wanted))
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.commit_sha) == (outcome, None)
    assert output.workspace is not None
    assert not output.workspace.pushed
    assert git("branch", "--list", at=origin) == "* main"
    assert any("nothing was pushed" in warning for warning in output.warnings)


async def test_work_that_was_to_be_pushed_and_was_not_is_no_success(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    commits(fake_claude)
    fake_claude.does(f"mv {origin} {origin}.gone\n{fake_claude.behaviour}")
    wanted = GitWorkspace(url=str(origin), branch="agent/fix", push="Always")
    await queues.task(workspace=Workspace(git=wanted))
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("failed", "WorkspaceError")
    assert output.verdict is not None


async def test_an_agent_that_commits_nothing_has_no_commit(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    await queues.task(workspace=Workspace(git=GitWorkspace(url=str(origin))))
    assert await wrappers.start().exit_code() == 0
    assert (await queues.output()).commit_sha is None


async def test_a_repository_that_is_not_there_is_an_outcome_without_a_turn(
    wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, tmp_path: Path
) -> None:
    missing = GitWorkspace(url=str(tmp_path / "missing.git"))
    await queues.task(workspace=Workspace(git=missing))
    assert await wrappers.start().exit_code() == 0
    output = await queues.output()
    assert (output.status, output.reason) == ("error", "WorkspaceError")
    assert "missing.git" in (output.error or "")
    assert fake_claude.turns == []
