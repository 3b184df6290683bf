"""A worker whose agent or workspace is not there could answer nothing: it does not begin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts.queues import BARE
from worker_wrapper import preflight

BASE = {
    "WORKER_ID": "w-1",
    "WORKER_TYPE": "developer",
    # Nobody is there: whoever refuses does it before anybody is asked for work.
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ANTHROPIC_API_KEY": "sk-one",
}


def refused(environ: dict[str, str]) -> str:
    """The one line with which a wrapper refuses to begin."""
    done = subprocess.run(
        [sys.executable, "-m", "worker_wrapper"],
        env={**BASE, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("agent", "program", "key"),
    [
        ("claude", "claude", "ANTHROPIC_API_KEY"),
        ("codex", "codex", "OPENAI_API_KEY"),
        ("gemini", "gemini", "GEMINI_API_KEY"),
        ("opencode", "opencode", "ANTHROPIC_API_KEY"),
        ("factory", "droid", "FACTORY_API_KEY"),
        ("orbiter", "orbiter", "OPENAI_API_KEY"),
    ],
)
def test_an_agent_that_is_not_on_path_is_named_with_the_next_step(
    tmp_path: Path, agent: str, program: str, key: str
) -> None:
    said = refused(
        {"AGENT_TYPE": agent, key: "k", "PATH": "/nowhere", "WORKSPACE_DIR": str(tmp_path)}
    )

    assert said == (
        f"worker-wrapper: AGENT_TYPE is {agent}, and its program {program} is not on PATH "
        f"(/nowhere): use the worker image of {agent}, or install {program}"
    )


@pytest.mark.parametrize("worker_type", ["developer", "po"])
def test_a_workspace_that_cannot_be_made_is_named_with_the_next_step(
    tmp_path: Path, fake_claude: FakeClaude, worker_type: str
) -> None:
    missing = tmp_path / "file" / "missing"
    missing.parent.touch()

    said = refused(
        {
            "WORKER_TYPE": worker_type,
            "PATH": str(fake_claude.bin),
            "WORKSPACE_DIR": str(missing),
        }
    )

    assert said == (
        f"worker-wrapper: WORKSPACE_DIR is {missing}, which cannot be made (Not a directory): "
        "make it, or name another one"
    )


def test_a_workspace_that_is_not_there_is_made(tmp_path: Path) -> None:
    preflight.check_workspace(tmp_path / "not" / "there")

    assert (tmp_path / "not" / "there").is_dir()


def test_a_workspace_that_is_a_file_is_named_with_the_next_step(
    tmp_path: Path, fake_claude: FakeClaude
) -> None:
    file = tmp_path / "file"
    file.touch()

    said = refused({"PATH": str(fake_claude.bin), "WORKSPACE_DIR": str(file)})

    assert said == (f"worker-wrapper: WORKSPACE_DIR is {file}, and that is no directory: name one")


def test_a_workspace_nobody_may_write_to_is_named_with_the_next_step() -> None:
    script = """
import os
from pathlib import Path
from worker_wrapper import preflight
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    preflight.check_workspace(Path("/usr"))
except preflight.UnfitError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    uid = os.geteuid() or 65534
    assert done.stdout.strip() == (
        f"WORKSPACE_DIR is /usr, and user {uid} may not write there: "
        f"let that user write (in Kubernetes fsGroup does), or name another one"
    )


@pytest.mark.integration
async def test_a_worker_says_at_its_start_which_stream_it_waits_for(
    wrappers: Wrappers,
) -> None:
    developer = wrappers.start("w-1")
    po = wrappers.start("po-1", WORKER_TYPE="po")

    assert (await developer.logged("listening"))["stream"] == BARE.developer_input
    assert (await po.logged("listening"))["stream"] == BARE.po_input("po-1")
