"""The pod of a session's worker: what it is told, and where its conversation is kept."""

from typing import Any

import pytest
from support.running_sessions import DEFAULTS

from orbiter_operator.sessions.deployment import build_template
from orbiter_operator.sessions.models import SessionSpec

SHARED = ("orbiter-redis", "po-url")


def template(**spec: Any) -> dict[str, Any]:
    whole = SessionSpec.model_validate({"userId": 7, **spec})
    return build_template("team", "alice", "u1", "team.alice", whole, DEFAULTS, SHARED)


def environment(**spec: Any) -> dict[str, str | None]:
    [container] = template(**spec)["spec"]["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


def test_a_worker_is_told_who_it_is_and_the_rules_of_its_session():
    variables = environment(rotation={"commands": ["/new", "/reset"], "maxTokens": 5})
    assert (variables["WORKER_TYPE"], variables["WORKER_ID"]) == ("po", "team.alice")
    assert variables["USER_ID"] == "7"
    assert variables["SESSION_COMMANDS"] == "/new,/reset"
    assert variables["SESSION_MAX_TOKENS"] == "5"
    assert "SESSION_ID" not in variables


def test_no_rotation_commands_are_a_comma_because_nothing_would_mean_the_default():
    assert environment(rotation={"commands": []})["SESSION_COMMANDS"] == ","


def test_only_a_snapshot_has_a_key():
    assert environment()["SNAPSHOT_KEY"] == "worker:po:team.alice:snapshot"
    assert "SNAPSHOT_KEY" not in environment(persistence={"type": "None"})


def test_a_claim_takes_the_place_of_the_home_directory():
    claim = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "home-7"}}
    volumes = {item["name"]: item for item in template(persistence=claim)["spec"]["volumes"]}
    assert volumes["home"] == {"name": "home", "persistentVolumeClaim": {"claimName": "home-7"}}


@pytest.mark.parametrize(
    ("adopted_in", "prefix"),
    [("team", "session:user:"), ("another", "session:user:team:"), ("", "session:user:team:")],
)
def test_a_users_record_is_its_namespaces_own_but_where_entries_are_adopted(adopted_in, prefix):
    whole = SessionSpec.model_validate({"userId": 7})
    defaults = DEFAULTS._replace(adopt_namespace=adopted_in)
    pod = build_template("team", "alice", "u1", "team.alice", whole, defaults, SHARED)["spec"]
    environment = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert environment["SESSION_RECORD_PREFIX"] == prefix
