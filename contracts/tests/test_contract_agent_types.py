"""One list of agent types: whatever offers, refuses or runs them has the same."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from orbiter.cli.agent.agent_types import AGENT_TYPES as OF_THE_COMMAND
from orbiter.cli.agent.agent_types import UNKNOWN_TYPE
from orbiter.cli.task.requirements import PROGRAMS
from orbiter_contracts import AGENT_TYPES, AGENTS
from orbiter_operator.pods.agent import CREDENTIALS
from worker_wrapper.agents import known_agents, load_agent

ROOT = Path(__file__).parents[2]
VERSIONS = ROOT / "images/versions.env"
SCHEMA = json.loads((ROOT / "helm/orbiter/values.schema.json").read_text())["properties"]


def type_of(crd: str) -> dict[str, Any]:
    versions = yaml.safe_load((ROOT / "crds" / crd).read_text())["spec"]["versions"]
    spec = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found: dict[str, Any] = spec["properties"]["agent"]["properties"]["type"]
    return found


@pytest.mark.parametrize("crd", ["agenttask.yaml", "posession.yaml"])
def test_the_resource_definitions_take_these_types_and_name_them(crd: str) -> None:
    field = type_of(crd)
    (rule,) = field["x-kubernetes-validations"]
    assert rule["rule"] == f"self in [{', '.join(repr(name) for name in AGENT_TYPES)}]"
    assert rule["message"] == UNKNOWN_TYPE
    assert f"{', '.join(AGENT_TYPES[:-1])} or {AGENT_TYPES[-1]}." in field["description"]
    # A task's profile may say it: a default that the API server writes would count as the task's.
    assert field.get("default") in AGENT_TYPES or "claude when neither" in field["description"]


@pytest.mark.parametrize("page", ["README.md", "docs/sessions.md"])
def test_the_tables_offer_these_types(page: str) -> None:
    (row,) = re.findall(
        r"^\| `agent\.type` \| `claude` \| (.*?)(?:\.| \|)", (ROOT / page).read_text(), re.M
    )
    assert tuple(re.findall(r"`(\w+)`", row)) == AGENT_TYPES


def test_the_wrapper_has_an_adapter_for_each_and_the_operator_its_credentials() -> None:
    assert known_agents() == AGENT_TYPES
    assert tuple(CREDENTIALS) == AGENT_TYPES


LIMITS = {"maxTurns": "max_turns", "maxCostUSD": "max_cost_usd"}


@pytest.mark.parametrize("name", AGENT_TYPES)
def test_the_row_of_an_agent_says_what_its_adapter_does(name: str) -> None:
    row, adapter = AGENTS[name], load_agent(name)
    assert row.command == adapter.program
    assert row.resumes == adapter.resumes_mid_turn
    assert set(row.limits) == {field for field, own in LIMITS.items() if own not in adapter.ignores}
    assert set(adapter.credentials) <= set(row.variables)


def test_the_page_has_the_agents_as_their_rows_and_adapters_say() -> None:
    page = (ROOT / "docs/tasks.md").read_text().partition("### The agents\n")[2]
    found = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.partition("\n\n#")[0].splitlines()
        if line.startswith("| `")
    ][1:]
    pinned = dict(re.findall(r"^(\w+)=(.*)$", VERSIONS.read_text(), re.M))
    wanted = []
    for name, row in AGENTS.items():
        *first, last = [f"`{each}`" for each in load_agent(name).credentials]
        keys = f"{', '.join(first)} or {last}" if first else last
        version = pinned.get(f"{name.upper()}_VERSION", "")
        limits = ", ".join(f"`{limit}`" for limit in row.limits) or "no limit"
        after = "goes on" if row.resumes else "begins anew"
        program = f"`{row.command}` {version}".strip()
        wanted.append([f"`{name}`", program, keys, row.streams, row.usage, limits, after])
    assert found == wanted


def test_the_command_line_knows_these_types_and_can_run_each_here() -> None:
    assert OF_THE_COMMAND == AGENT_TYPES
    assert {*PROGRAMS, "orbiter"} == set(AGENT_TYPES)


def test_the_chart_has_an_image_for_each_and_adopts_for_no_other() -> None:
    workers = SCHEMA["images"]["properties"]["workers"]
    assert set(workers["properties"]) == set(AGENT_TYPES)
    assert workers["additionalProperties"] is False
    adopted = SCHEMA["adoption"]["properties"]["agent"]["properties"]["type"]
    assert tuple(adopted["enum"]) == AGENT_TYPES
    values = yaml.safe_load((ROOT / "helm/orbiter/values.yaml").read_text())
    assert values["images"]["workers"] == {name: f"worker-{name}" for name in AGENT_TYPES}


def test_an_image_of_each_type_is_built() -> None:
    catalog = (ROOT / "images/orbiter_images/catalog.py").read_text()
    built = re.findall(r'worker\("(\w+)"|Image\("worker-(orbiter)"', catalog)
    assert {one or other for one, other in built} == set(AGENT_TYPES)
