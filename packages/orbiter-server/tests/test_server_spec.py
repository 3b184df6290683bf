"""What a task was told, as fields and as YAML: total, and nothing hides in it."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.strange_values import TEXTS, VALUES, with_fields

from orbiter.server._internal.cluster_artifacts import told_of
from orbiter.server._internal.cluster_attempts import attempt_of
from orbiter.server._internal.cluster_detail import brief_of, detail_of, transcript_of
from orbiter.server._internal.cluster_spec import VALUE_CHARS, YAML_CHARS, spec_of
from orbiter.server._internal.sse import last_event_id

from .test_server_transcripts import launch, redis_server

__all__ = ["launch", "redis_server"]
PATH = "/v1/cluster/tasks/team-a/fix/spec"
SPEC = {
    "prompt": "Mend it.\nThen test it.\n",
    "agent": {
        "type": "claude", "model": "opus", "maxCostUSD": 2.5, "maxTurns": 40,
        "credentialsSecretRef": {"name": "keys"},
        "env": [
            {"name": "MODE", "value": "fast"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "t"}}},
        ],
        "mcpServers": [
            {"name": "wiki", "url": "https://wiki.example.com"},
            {"name": "files", "command": "serve", "args": ["-v", "."]},
        ],
    },
    "profileRef": {"name": "careful"},
    "timeoutSeconds": 900,
    "retry": {"limit": 2, "backoffSeconds": 10},
    "workspace": {
        "git": {"url": "https://git.example.com/shop.git", "branch": "b", "push": "Always"}
    },
    "dependsOn": ["one", "two"],
    "artifacts": ["out", "*.log"],
}  # fmt: skip


def shown(spec, **meta):
    return spec_of({"metadata": {"name": "fix", "namespace": "team-a", **meta}, "spec": spec})


def test_what_matters_is_a_field_and_the_whole_is_yaml():
    found = shown(SPEC, labels={"team": "shop"}, uid="x", managedFields=[{}])
    fields = {each.name: each.value for each in found.fields}
    assert fields == {
        "Agent": "claude", "Model": "opus", "Profile": "careful",
        "At most": "2.5 USD, 40 turns, 900 s an attempt", "Further attempts": "2, after 10 s",
        "Repository": "https://git.example.com/shop.git", "Branch": "b", "Push": "Always",
        "Artifacts": "out, *.log", "After": "one, two", "Credentials": "Secret keys",
        "Environment": "MODE=fast\nTOKEN from Secret tokens, t",
        "MCP servers": "wiki, https://wiki.example.com\nfiles, serve -v .", "Labels": "team=shop",
    }  # fmt: skip
    assert "prompt: |\n    Mend it.\n    Then test it.\n" in found.yaml
    assert yaml.safe_load(found.yaml) == {
        "apiVersion": "orbiter.dev/v1alpha1", "kind": "AgentTask", "spec": SPEC,
        "metadata": {"name": "fix", "namespace": "team-a", "labels": {"team": "shop"}},
    }  # fmt: skip
    assert not found.yaml_cut


@pytest.mark.parametrize(
    "text",
    ["a\u202eb", "a\x00b\n", "\ud800", "\U000e0041x\nb", "\x85\u2028 x", "x\x1b[2J", "<b>ä</b>"],
)
def test_nothing_hides_in_the_yaml_and_it_means_the_same(text):
    found = shown({"prompt": text, "agent": {"systemPrompt": text}})
    assert all(each.value.replace("\n", "").isprintable() for each in found.fields)
    assert found.yaml.replace("\n", "").isprintable()
    assert "\ud800" in text or yaml.safe_load(found.yaml)["spec"]["prompt"] == text
    found.model_dump_json()


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "spec",
    [
        None, [], "x", 7, {}, {"agent": []}, {"agent": {"env": "x", "skills": [1, None]}},
        {"retry": {"limit": True}, "dependsOn": {"a": 1}}, {"podTemplate": deep(5000)},
        {"prompt": "x" * 3_000_000}, {"agent": {"systemPrompt": "y" * 10_000}},
        {"agent": {"env": [{"name": "a", "value": "\n" * 3000}] * 500}},
    ],
)  # fmt: skip
def test_whatever_a_spec_is_it_is_shown_in_bounds(spec):
    began = time.process_time()
    found = shown(spec, labels=[1])
    assert len(found.yaml) <= YAML_CHARS
    assert all(len(each.value) <= VALUE_CHARS for each in found.fields)
    assert time.process_time() - began < 5


@pytest.mark.integration
async def test_who_may_get_a_task_is_told_its_spec(launch):
    ada, _ = await launch()
    found = (await ada.http.get(PATH)).json()
    assert {"name": "Agent", "value": "claude"} in found["fields"]
    assert "prompt: Fix it" in found["yaml"]
    refused = await ada.http.get(PATH.replace("team-a", "team-b"))
    assert refused.status_code == 403


NAMES = ["agent", "prompt", "workspace", "retry", "dependsOn", "artifacts", "usage", "conditions"]
NAMES += ["userId", "inputStream", "checkpoint", "startTime", "completionTime", "phase", "attempts"]
PARTS = st.dictionaries(
    st.sampled_from(NAMES),
    with_fields(["type", "model", "env", "mcpServers", "git", "names", "count", "time", "costUSD"]),
)


@given(PARTS | VALUES, PARTS | VALUES, VALUES)
def test_an_object_of_any_contents_is_shown(spec, status, labels):
    meta = {"name": "odd", "namespace": "team-a", "uid": "u", "labels": labels}
    item = {"metadata": meta, "spec": spec, "status": status}
    brief = brief_of(item)
    for told in (detail_of(brief, item, ()), told_of(item, None), attempt_of(item, 1, None)):
        assert told.model_dump_json()
    assert spec_of(item).model_dump_json()
    place = transcript_of(item, 1)
    assert place is None or place.namespace == "team-a"


@given(TEXTS | st.sampled_from(["\u00b2", "9" * 5000, "-1"]))
def test_where_a_client_was_is_a_number(text):
    assert last_event_id({"last-event-id": text}, 7) >= 0
