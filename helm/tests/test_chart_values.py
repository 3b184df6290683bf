"""What can be said about the chart without helm: its values, their schema, its README."""

import copy
import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from orbiter_contracts import redis_users
from orbiter_contracts.queues import BARE

HELM = Path(__file__).resolve().parents[1]
CHART = HELM / "orbiter"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


def changed(path: str, value: object) -> dict[str, Any]:
    """The default values but for one."""
    values = copy.deepcopy(DEFAULTS)
    *parents, last = path.split(".")
    inner = values
    for name in parents:
        inner = inner[name]
    inner[last] = value
    return values


def values_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("values_table", HELM / "values_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_schema_is_one_and_takes_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(DEFAULTS, SCHEMA)


@pytest.mark.parametrize(
    "path",
    ["opertor", "operator.replica", "workers.namespace", "redis.external.secret", "images.claude"],
)
def test_a_misspelt_value_is_refused(path: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match="Additional properties are not allowed"):
        jsonschema.validate(changed(path, "x"), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("operator.replicas", "two"),
        ("operator.logLevel", "verbose"),
        ("workers.namespaces", []),
        ("workers.namespaces", ["Team_A"]),
        ("workers.namespaceSelector", {"matchLabels": {"team": "not a label"}}),
        ("workers.namespaceSelector", {"matchExpressions": []}),
        ("workers.maxConcurrentJobs", 0),
        ("workers.allowedServiceAccountNames", ["a,b"]),
        ("workers.allowedAWSRoleARNs", ["agents"]),
        ("workers.allowedAWSRoleARNs", ["arn:aws:iam::123456789012:user/agent"]),
        ("workers.podTemplate.allow", ["volumes"]),
        ("workers.podTemplate.allow", ["spec"]),
        ("workers.podTemplate.allow", ["metadata.name"]),
        ("workers.podTemplate.tolerations", [{"keys": "gpu"}]),
        ("adoption.agent", {"type": "gtp"}),
        ("redis.maxMemory", "much"),
        ("images.pullPolicy", "Sometimes"),
        ("triggers.courier.github.url", "http://api.github.com"),
        ("triggers.courier.github.url", "https://me@api.github.com"),
        ("triggers.courier.github.privateNetworks", ["10.1.2.3"]),
        ("triggers.courier.github.caConfigMap", "Company"),
        ("triggers.courier.github.writeSeconds", -1),
        ("triggers.courier.repositories", {"team-a": ["shop"]}),
        ("triggers.courier.repositories", {"Team_A": ["octo-org/shop"]}),
        ("triggers.courier.taskUrl", "javascript:x"),
        ("triggers.courier.notify.secretNames", []),
        ("triggers.courier.notify.secretNames", ["Orbiter"]),
        ("triggers.courier.notify.privateNetworks", ["10.1.2.3"]),
        ("triggers.courier.notify.ports", [0]),
        ("triggers.courier.notify.source", "prod"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(path: str, value: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(path, value), SCHEMA)


def test_the_readme_lists_every_value() -> None:
    readme = (CHART / "README.md").read_text()
    assert values_table().renewed(readme) == readme, "run `make chart-readme`"


def test_every_value_has_a_default() -> None:
    table = values_table()
    undefined = [
        path
        for path, _ in table.leaves(SCHEMA)
        if path != "global" and not table.default_of(DEFAULTS, path)
    ]
    assert undefined == []


def rights_of(user: str) -> str:
    """What the chart gives a user of Redis, with all that a value adds, as an ACL line."""
    text = (CHART / "templates" / "_redis.tpl").read_text()
    shared = dict(re.findall(r'^{{- \$(\w+) := "(.*)" -}}$', text, re.MULTILINE))
    shared["common"] = " ".join(("-@all", *shared.values()))
    (line,) = re.findall(rf"^user {user} (.*)$", text, re.MULTILINE)
    for name, words in shared.items():
        line = line.replace(f"{{{{ ${name} }}}}", words)
    return re.sub(r"{{.*?}}", " ", line)


def test_the_operators_user_has_the_keys_and_rights_that_it_needs() -> None:
    rights, _, _ = rights_of("operator").partition("(")
    words = rights.split()
    patterns = {word.removeprefix("~") for word in words if word.startswith("~")}
    assert patterns == set(redis_users.operator_patterns())
    needed = (redis_users.MANAGES_USERS, redis_users.COUNTS_BYTES, redis_users.BOUNDS_TRANSCRIPTS)
    assert {right for rights in needed for right in rights} <= set(words)


@pytest.mark.parametrize(
    ("user", "rules"),
    [
        ("developer", redis_users.worker_rules(BARE)),
        ("po", redis_users.session_rules(BARE, "team.alice", BARE.session_record(1))),
    ],
)
def test_a_worker_of_the_charts_users_may_run_what_one_of_the_operators_may(
    user: str, rules: redis_users.Rules
) -> None:
    may = set(re.findall(r"\+[\w@|]+", rights_of(user)))
    needed = set(re.findall(r"\+[\w@|]+", " ".join(rules)))
    assert {right for right in needed if not {right, right.partition("|")[0]} & may} == set()


@pytest.mark.parametrize(
    ("user", "rules"),
    [
        ("triggers", redis_users.triggers_rules()),
        ("receiver", redis_users.receiver_rules()),
        ("courier", redis_users.courier_rules()),
    ],
)
def test_the_users_of_triggers_have_the_keys_and_the_rights_that_they_need_and_no_others(
    user: str, rules: redis_users.Rules
) -> None:
    line, _, selector = rights_of(user).partition(" (")
    assert [f"({selector.strip()}"] * bool(selector) == [one for one in rules if one[0] == "("]
    words = line.split()
    wanted = [word for word in rules if "~" in word and word[0] != "("]
    assert [word for word in words if "~" in word] == wanted
    given = {word for word in words if word.startswith("+")}
    assert {word for word in rules if word.startswith("+")} == given
    assert "-@all" in words


def test_the_pages_name_the_rights_that_an_operators_user_needs() -> None:
    page = (HELM.parent / "docs" / "security.md").read_text()
    for rights in (redis_users.MANAGES_USERS, redis_users.COUNTS_BYTES):
        assert f"`{' '.join(rights)}`" in page
    page = (HELM.parent / "docs" / "transcripts.md").read_text()
    assert f"`{' '.join(redis_users.BOUNDS_TRANSCRIPTS)}`" in page


def test_the_operators_readme_names_its_commands_and_none_that_the_chart_refuses() -> None:
    readme = (HELM.parent / "operator" / "README.md").read_text()
    needs = readme.partition("- **Redis**: keys")[2].partition("; of Sentinels")[0]
    found = re.findall(r"\b[A-Z]{3,}(?: [A-Z]{2,})?\b", needs.partition("commands ")[2])
    named = {f"+{name.replace(' ', '|').lower()}" for name in found}
    beyond = {*redis_users.MANAGES_USERS, *redis_users.COUNTS_BYTES}
    # HELLO, CLIENT ID, MULTI and EXEC are in categories.
    said = {"+hello", "+client|id", "+multi", "+exec"}
    allowed = set(re.findall(r"[+\w|]+", rights_of("operator"))) | {"+xinfo"}
    assert beyond <= named
    assert named - said <= allowed
