"""`worker-wrapper --help`: every variable, from the one table that the settings are read by."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbiter_contracts import AGENTS
from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.help_text import default_of, help_text
from worker_wrapper.settings import Settings, load
from worker_wrapper.variable_table import Variables

README = Path(__file__).resolve().parents[1] / "README.md"
ROW = re.compile(r"^  ([A-Z_]+) +(\S+) +(\S.*)$", re.MULTILINE)
FIELDS = {str(field.validation_alias): field for field in Variables.model_fields.values()}


def credentials() -> set[str]:
    """What agents need one of."""
    names = {name for agent in known_agents() for name in load_agent(agent).credentials}
    return names | {name for agent in AGENTS.values() for name in agent.keyless}


def test_it_is_printed_whatever_the_environment_is() -> None:
    for word in ("--help", "-h"):
        done = subprocess.run(
            [sys.executable, "-m", "worker_wrapper", word],
            env={"WORKER_TYPE": "manager"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == help_text()


def test_each_variable_of_the_settings_has_one_line_with_its_default_and_meaning() -> None:
    rows = ROW.findall(help_text())
    assert [name for name, _, _ in rows] == list(FIELDS)
    assert [str(field.validation_alias) for field in Settings.model_fields.values()] == list(FIELDS)
    for name, default, meaning in rows:
        assert default == default_of(FIELDS[name])
        assert meaning == FIELDS[name].title
        assert 0 < len(meaning) <= 90


@pytest.mark.parametrize("name", known_agents())
def test_each_agent_has_a_line_with_its_credentials_and_what_it_is_given_beside(name: str) -> None:
    [line] = re.findall(rf"^  {name} +(.*)$", help_text(), re.MULTILINE)
    needed, _, beside = line.partition("; also ")
    assert needed.split(" or ") == [*load_agent(name).credentials, *AGENTS[name].keyless]
    assert tuple(beside.split(", ")) == load_agent(name).passes


def test_the_readme_and_the_help_know_the_same_variables() -> None:
    chapter = README.read_text().split("## Environment")[1].split("## ")[0]
    first = "".join(re.findall(r"^\| (`[A-Z].*?) \|", chapter, re.MULTILINE))
    told = set(re.findall(r"`([A-Z_]+)`", first))
    assert told - credentials() - {"AGENT_FILE"} == {*FIELDS}
    assert all(name in help_text() for name in told)


def test_a_default_that_is_shown_is_the_one_that_holds() -> None:
    needed = {"WORKER_ID": "w", "WORKER_TYPE": "po", "REDIS_URL": "redis://here:6379/0"}
    environ = {**needed, "ANTHROPIC_API_KEY": "sk-one"}
    shown = {
        name: default_of(field)
        for name, field in FIELDS.items()
        if default_of(field) not in ("required", "none") and name != "WORKSPACE_DIR"
    }
    assert load({**shown, **environ}) == load(environ)
