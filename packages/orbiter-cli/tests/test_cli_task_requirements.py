"""What a task's agent needs here is told before it starts, with how to get it."""

import pytest

from orbiter.cli.task.manifest import Manifest
from orbiter.cli.task.requirements import PROGRAMS, check_environment, check_program
from orbiter.cli.ui.outcome import UsageError

KEY = {"ANTHROPIC_API_KEY": "k"}


def task(kind: str) -> Manifest:
    return Manifest("hello", "default", {"agent": {"type": kind}}, {}, {})


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_missing_program_is_told_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    program, install = PROGRAMS[kind]
    with pytest.raises(UsageError, match=f"{program} is not on PATH.*{install}"):
        check_program(task(kind))


def test_windows_runs_no_worker() -> None:
    with pytest.raises(UsageError, match="use WSL or a cluster"):
        check_program(task("orbiter"), platform="win32")


@pytest.mark.parametrize(
    ("kind", "environ", "told"),
    [
        ("claude", {}, r"ANTHROPIC_API_KEY is not set: .*or ANTHROPIC_AUTH_TOKEN"),
        ("claude", {"ANTHROPIC_API_KEY": ""}, "ANTHROPIC_API_KEY is not set"),
        ("codex", KEY, "OPENAI_API_KEY is not set"),
        ("factory", {}, "FACTORY_API_KEY is not set: .*or OPENAI_API_KEY"),
        ("orbiter", {}, "ANTHROPIC_API_KEY is not set"),
        ("claude", KEY, "as root.*IS_SANDBOX=1 AGENT_ENV=IS_SANDBOX"),
        ("claude", {**KEY, "IS_SANDBOX": "1"}, "as root"),
    ],
)
def test_what_the_agent_would_miss_is_named(kind: str, environ: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        check_environment(task(kind), environ, uid=0)


@pytest.mark.parametrize(
    ("kind", "environ", "uid"),
    [
        ("claude", KEY, 1000),
        ("claude", {**KEY, "IS_SANDBOX": "1", "AGENT_ENV": "A, IS_SANDBOX"}, 0),
        ("orbiter", KEY, 0),
    ],
)
def test_what_is_enough_is_enough(kind: str, environ: dict[str, str], uid: int) -> None:
    check_environment(task(kind), environ, uid=uid)
