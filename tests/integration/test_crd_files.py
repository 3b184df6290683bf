"""What can be said about the resource definitions without an API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from orbiter_contracts.outcome import Result
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.budgets.ledger import MOST_RESERVATIONS
from orbiter_operator.budgets.models import BudgetSpec, BudgetStatus, Reservation, SessionAccount
from orbiter_operator.kube.models import KubeModel
from orbiter_operator.profiles.models import ProfileAgent, ProfileSpec
from orbiter_operator.sessions.models import (
    Idle,
    Persistence,
    Rotation,
    SessionSpec,
    SessionStatus,
)
from orbiter_operator.tasks.models import InputRequest, TaskSpec, TaskStatus
from orbiter_triggers.models import (
    MOST_NOTES,
    CronSource,
    Filters,
    GithubSource,
    HistoryLimits,
    Note,
    Outcome,
    Source,
    TaskMetadata,
    TaskTemplate,
    TriggerSpec,
    TriggerStatus,
    WebhookSource,
)

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "crds").glob("*.yaml"))
WITH_STATUS = [file for file in FILES if not file.stem.endswith("agentprofile")]
SHARED_SPEC = ("agent", "podTemplate")
SHARED_STATUS = ("conditions", "usage")

Schema = dict[str, Any]
crd_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def version(file: Path) -> Schema:
    found: Schema = yaml.safe_load(file.read_text())["spec"]["versions"][0]
    return found


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here, field
        yield from fields(field, here)
        yield from fields(field.get("items", {}), f"{here}[]")


def all_fields(file: Path) -> dict[str, Schema]:
    return dict(fields(version(file)["schema"]["openAPIV3Schema"]))


@crd_file
def test_every_field_says_what_it_is_for(file: Path) -> None:
    from_kubernetes = ("metadata", "metadata.name")
    silent = [
        path
        for path, field in all_fields(file).items()
        if path not in from_kubernetes and not field.get("description", "").strip().endswith(".")
    ]
    assert silent == []


@crd_file
def test_every_rule_has_a_sentence(file: Path) -> None:
    for path, field in all_fields(file).items():
        for rule in field.get("x-kubernetes-validations", []):
            assert len(rule["message"].split()) > 3, f"{path}: {rule['rule']}"


@crd_file
def test_every_text_and_list_of_the_spec_is_bounded(file: Path) -> None:
    bound = {"string": "maxLength", "array": "maxItems"}
    endless = [
        path
        for path, field in all_fields(file).items()
        if path.startswith("spec.")
        and field["type"] in bound
        and bound[field["type"]] not in field
        and "enum" not in field
    ]
    assert endless == []


@pytest.mark.parametrize("file", WITH_STATUS, ids=lambda file: file.stem)
def test_the_status_is_a_subresource_with_conditions_by_type(file: Path) -> None:
    assert version(file)["subresources"] == {"status": {}}
    conditions = all_fields(file)["status.conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def without_words(schema: Any) -> Any:
    """A schema without its descriptions and defaults: a profile says for whom, and has none."""
    if isinstance(schema, list):
        return [without_words(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    texts = {"description": str, "default": object}
    return {
        key: without_words(value)
        for key, value in schema.items()
        if not (key in texts and isinstance(value, texts[key]))
    }


def test_tasks_sessions_and_profiles_describe_agents_and_pods_alike() -> None:
    task, session, profile, cluster = (
        all_fields(ROOT / "crds" / f"{name}.yaml")
        for name in ("agenttask", "posession", "agentprofile", "clusteragentprofile")
    )
    for name in SHARED_SPEC:
        expected = without_words(task[f"spec.{name}"])
        assert without_words(session[f"spec.{name}"]) == expected
        assert without_words(profile[f"spec.{name}"]) == expected
    assert without_words(cluster["spec"]) == without_words(profile["spec"])
    for name in ("spec.profileRef", "status.profile"):
        assert without_words(session[name]) == without_words(task[name])
    rules = "x-kubernetes-validations"
    assert profile["spec.timeoutSeconds"][rules] == task["spec.timeoutSeconds"][rules]


def test_what_a_profile_may_say_has_no_default_in_a_task() -> None:
    """Else nobody could tell what a task says from what it leaves to its profile."""
    task, profile = (
        all_fields(ROOT / f"crds/{name}.yaml") for name in ("agenttask", "agentprofile")
    )
    both = {path for path in task.keys() & profile.keys() if path.startswith("spec.")}
    assert {"spec.agent.type", "spec.timeoutSeconds"} <= both
    assert {path for path in both if "default" in task[path]} == {"spec.agent"}
    assert not any("default" in field for field in profile.values())


def test_every_field_of_a_profile_can_be_left_to_tasks_and_the_operator_knows_it() -> None:
    profile = all_fields(ROOT / "crds/agentprofile.yaml")
    for model, part in ((ProfileSpec, "spec"), (ProfileAgent, "spec.agent")):
        known = {path.removeprefix(f"{part}.") for path in profile if path.startswith(f"{part}.")}
        known = {path for path in known if "." not in path and "[" not in path}
        assert {field.alias for field in model.model_fields.values()} == known
    overrides = version(ROOT / "crds/agentprofile.yaml")["schema"]["openAPIV3Schema"]["properties"]
    names = overrides["spec"]["properties"]["allowOverrides"]["items"]["enum"]
    agent = {field.alias for field in ProfileAgent.model_fields.values()}
    assert set(names) == agent | {"timeoutSeconds", "podTemplate", "*"}


def test_tasks_and_sessions_describe_conditions_and_usage_alike() -> None:
    task, session, budget, trigger = (
        all_fields(ROOT / "crds" / f"{name}.yaml")
        for name in ("agenttask", "posession", "agentbudget", "agenttrigger")
    )
    for name in SHARED_STATUS:
        assert task[f"status.{name}"] == session[f"status.{name}"]
    assert task["status.conditions"] == budget["status.conditions"]
    assert task["status.conditions"] == trigger["status.conditions"]


def test_the_operator_knows_every_field_of_a_budget_and_its_bounds() -> None:
    budget = all_fields(ROOT / "crds/agentbudget.yaml")
    for model, part in ((BudgetSpec, "spec"), (BudgetStatus, "status")):
        known = {path.removeprefix(f"{part}.") for path in budget if path.startswith(f"{part}.")}
        known = {path for path in known if "." not in path and "[" not in path}
        assert {field.alias for field in model.model_fields.values()} == known
    for name, field in BudgetSpec.model_fields.items():
        path = f"spec.{field.alias}"
        if "default" in budget[path]:
            assert budget[path]["default"] == field.default, name
    reservations = budget["status.reservations"]
    assert reservations["maxProperties"] == MOST_RESERVATIONS
    held = {field.alias for field in Reservation.model_fields.values()}
    kept = reservations["additionalProperties"]["properties"]
    assert set(kept) == held
    account = {field.alias for field in SessionAccount.model_fields.values()}
    assert set(kept["session"]["properties"]) == account


TRIGGER_PARTS = {
    "spec": TriggerSpec,
    "spec.source": Source,
    "spec.source.cron": CronSource,
    "spec.source.github": GithubSource,
    "spec.source.webhook": WebhookSource,
    "spec.filters": Filters,
    "spec.taskTemplate": TaskTemplate,
    "spec.taskTemplate.metadata": TaskMetadata,
    "spec.historyLimits": HistoryLimits,
    "status": TriggerStatus,
    "status.lastEvents[]": Note,
}


@pytest.mark.parametrize(("part", "model"), TRIGGER_PARTS.items(), ids=TRIGGER_PARTS)
def test_every_field_of_a_trigger_is_known_with_its_default(
    part: str, model: type[KubeModel]
) -> None:
    trigger = all_fields(ROOT / "crds/agenttrigger.yaml")
    known = {path.removeprefix(f"{part}.") for path in trigger if path.startswith(f"{part}.")}
    known = {path for path in known if "." not in path and "[" not in path}
    assert {field.alias for field in model.model_fields.values()} == known
    for name, field in model.model_fields.items():
        schema = trigger[f"{part}.{field.alias}"]
        if "default" in schema and schema["type"] != "object":
            assert schema["default"] == field.default, name


def test_a_trigger_tells_of_as_many_events_as_its_status_holds() -> None:
    trigger = all_fields(ROOT / "crds/agenttrigger.yaml")
    assert trigger["status.lastEvents"]["maxItems"] == MOST_NOTES
    outcomes = trigger["status.lastEvents[].outcome"]["description"].rstrip(".")
    assert set(outcomes.replace(" or ", ", ").split(", ")) == set(get_args(Outcome))


def test_the_operator_reads_and_writes_fields_that_exist() -> None:
    task = all_fields(ROOT / "crds/agenttask.yaml")
    spec, status = (
        {path.partition(".")[2] for path in task if path.startswith(part)}
        for part in ("spec.", "status.")
    )
    assert {field.alias for field in TaskSpec.model_fields.values()} <= spec
    assert {field.alias for field in TaskStatus.model_fields.values()} <= status
    for inner, model in (("result", Result), ("usage", TaskUsage), ("inputRequest", InputRequest)):
        assert {f"{inner}.{field.alias}" for field in model.model_fields.values()} <= status


def test_the_operator_reads_and_writes_fields_of_sessions_that_exist() -> None:
    session = version(ROOT / "crds" / "posession.yaml")["schema"]["openAPIV3Schema"]["properties"]
    for model, part in ((SessionSpec, "spec"), (SessionStatus, "status")):
        known = set(session[part]["properties"])
        assert {field.alias for field in model.model_fields.values()} <= known
    for model, name in ((Idle, "idle"), (Rotation, "rotation"), (Persistence, "persistence")):
        known = set(session["spec"]["properties"][name]["properties"])
        assert {field.alias for field in model.model_fields.values()} == known


def test_the_chart_has_the_same_definitions() -> None:
    copies = {path.name: path.read_text() for path in (ROOT / "helm/orbiter/files/crds").iterdir()}
    assert copies == {path.name: path.read_text() for path in FILES}, "run `make crds`"
