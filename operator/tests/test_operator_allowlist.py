"""What a podTemplate may say by default and by the chart, and the sentence when it says more."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pod_templates import ACCEPTED, HINTS, REFUSAL, REFUSED, Object, pod, worker
from support.running_sessions import DEFAULTS

from orbiter_operator.pods.allowlist import MAX_ITEMS, TABLE, allowed, nearest, template_error
from orbiter_operator.sessions.observe import read_session_spec
from orbiter_operator.tasks.observe import read_spec

TOLERATION = {"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}


def why(template: Any, **chart: Any) -> str:
    """What the operator says to a task with this podTemplate; empty when it takes it."""
    return read_spec({"prompt": "p", "podTemplate": template}, DEFAULTS._replace(**chart))[1] or ""


@pytest.mark.parametrize("field", REFUSED)
def test_what_is_not_on_the_list_is_refused_by_its_path(field: str) -> None:
    told = why(REFUSED[field])
    assert told.startswith(REFUSAL + field), told
    assert HINTS.get(field, "") in told
    next_steps = ("leave it out", "name one of your own", "choose another", "not a list of items")
    assert any(step in told for step in next_steps)


@pytest.mark.parametrize("field", REFUSED)
def test_a_session_is_refused_the_same_with_the_same_words(field: str) -> None:
    spec = {"userId": 1, "podTemplate": REFUSED[field]}
    told = read_session_spec({"namespace": "a", "name": "b"}, spec, DEFAULTS)[1]
    assert told == why(REFUSED[field])


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_on_the_list_is_taken(name: str) -> None:
    assert why(ACCEPTED[name]) == ""


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("spec.securityContext", REFUSED["spec.securityContext"]),
        ("spec.securityContext.fsGroup", pod(securityContext={"fsGroup": 5})),
        ("spec.volumes", pod(volumes=[{"name": "v", "secret": {"secretName": "mine"}}])),
        ("spec.volumes[].configMap", pod(volumes=[{"name": "v", "configMap": {"name": "mine"}}])),
        ("spec.volumes[]", pod(volumes=[{"name": "v", "configMap": {"name": "mine"}}])),
        ("spec.containers[worker]", worker(ports=[{"containerPort": 80}])),
        ("spec.containers", REFUSED["spec.containers[helper]"]),
        ("spec.containers[].image", REFUSED["spec.containers[helper]"]),
        ("spec.containers[worker].ports", worker(ports=[{"containerPort": 80}])),
        (
            "spec.containers[worker].env[].valueFrom",
            REFUSED["spec.containers[worker].env[A].valueFrom"],
        ),
        ("spec.containers[worker].env", REFUSED["spec.containers[worker].env[A].valueFrom"]),
        ("spec.priorityClassName", REFUSED["spec.priorityClassName"]),
        ("spec.tolerations", REFUSED["spec.tolerations[]"]),
        ("spec.initContainers[].image", pod(initContainers=[{"name": "first", "image": "a:1"}])),
    ],
)
def test_the_chart_allows_more_by_a_path(path: str, template: Object) -> None:
    assert why(template) != ""
    assert why(template, template_fields=(path,)) == ""


@pytest.mark.parametrize(
    ("path", "template", "field"),
    [
        (
            "spec.securityContext.fsGroup",
            pod(securityContext={"runAsUser": 0}),
            "spec.securityContext.runAsUser",
        ),
        ("spec.volumes[].configMap", REFUSED["spec.volumes"], "spec.volumes[v].hostPath"),
        ("spec.volumes", REFUSED["spec.volumes"], "spec.volumes[v].hostPath"),
        (
            "spec.containers[].image",
            pod(containers=[{"name": "helper", "command": ["a"]}]),
            "spec.containers[helper].command",
        ),
        ("spec.containers", worker(command=["a"]), "spec.containers[worker].command"),
        (
            "spec.containers[worker].command",
            worker(command=["a"]),
            "spec.containers[worker].command",
        ),
        ("spec.hostPID", pod(hostPID=True), "spec.hostPID"),
        ("spec.serviceAccountName", pod(serviceAccountName="default"), "spec.serviceAccountName"),
        (
            "spec.affinity.podAffinity",
            REFUSED[
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaceSelector"
            ],
            "spec.affinity.podAntiAffinity",
        ),
    ],
)
def test_and_no_more_than_that(path: str, template: Object, field: str) -> None:
    assert why(template, template_fields=(path,)).startswith(REFUSAL + field)


@pytest.mark.parametrize(
    ("template", "chart"),
    [
        (pod(priorityClassName="batch"), {"priority_classes": ("batch",)}),
        (pod(runtimeClassName="gvisor"), {"runtime_classes": ("gvisor",)}),
        (pod(tolerations=[TOLERATION]), {"tolerations": (TOLERATION,)}),
        (pod(serviceAccountName="builder"), {"allowed_service_accounts": ("builder",)}),
        (
            pod(serviceAccountName="builder", automountServiceAccountToken=True),
            {"allowed_service_accounts": ("builder",)},
        ),
    ],
)
def test_values_that_the_chart_lists_are_taken_and_no_others(template: Object, chart: Any) -> None:
    assert why(template) != ""
    assert why(template, **chart) == ""
    [name, values] = next(iter(chart.items()))
    others = tuple({"key": "other"} if isinstance(value, dict) else "other" for value in values)
    assert why(template, **{name: others}) != ""


def test_a_list_has_as_many_items_as_the_api_server_can_look_at() -> None:
    variables = [{"name": f"A{number}", "value": "x" * 15000} for number in range(MAX_ITEMS + 1)]
    assert why(worker(env=variables[:-1])) == ""
    assert "env has more than 64 items; write fewer" in why(worker(env=variables))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("nodeSelecter", "nodeSelector"), ("nodeselector", "nodeSelector")),
        *(("nodSelector", "nodeSelector"), ("nodeSelectors", "nodeSelector")),
        *(("noedSelector", "nodeSelector"), ("imgae", "image"), ("affinty", "affinity")),
        *(("volumes", None), ("", None), ("env", None), ("nodeSelectorsss", None)),
    ],
)
def test_one_slip_of_the_pen_is_recognized(typed: str, meant: str | None) -> None:
    assert nearest(typed, ["image", "affinity", "nodeSelector"]) == meant


def test_the_table_is_not_changed_by_what_the_chart_allows() -> None:
    before = json.dumps(TABLE)
    path = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].namespaces"
    assert allowed((path, "spec.containers[worker].tty")) != TABLE
    assert json.dumps(TABLE) == before


def test_the_chart_has_the_same_table() -> None:
    helm = Path(__file__).resolve().parents[2] / "helm"
    text = (helm / "orbiter" / "files" / "pod-template.json").read_text(encoding="utf-8")
    content = json.loads(text)
    assert content["fields"] == TABLE, "run `make chart-pod-template`"
    assert content["maxItems"] == MAX_ITEMS


KEYS = st.sampled_from(
    ["spec", "metadata", "containers", "env", "affinity", "name", "[]", "one of"]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("worker"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


FIELDS = st.sampled_from(["containers", "env", "affinity", "name", "volumes", "tolerations"])
PATHS = st.builds(
    lambda segments: ".".join(["spec", *(field + item for field, item in segments)]),
    st.lists(st.tuples(FIELDS, st.sampled_from(["", "[]", "[worker]"])), min_size=1, max_size=4),
)


@given(st.dictionaries(KEYS, JUNK, max_size=4), st.lists(PATHS, max_size=3))
def test_whatever_is_written_and_allowed_is_an_answer(template: Object, paths: list[str]) -> None:
    told = template_error(template, DEFAULTS._replace(template_fields=tuple(paths)))
    assert told is None or len(told) < 1000
