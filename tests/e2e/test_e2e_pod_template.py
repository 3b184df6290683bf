"""What a podTemplate may not say: refused by the API server, and without the policy by us."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.cluster import CommandError, Object
from support.manifests import agent_task, po_session
from support.pod_templates import (
    ACCEPTED,
    ALLOWED_OF_POD,
    ALLOWED_OF_WORKER,
    HINTS,
    LENGTHENED,
    METADATA,
    OURS,
    PATHS,
    POD,
    REFUSAL,
    REFUSED,
    VALUES,
    WORKER,
    pod,
    worker,
)
from support.running_sessions import DEFAULTS
from support.world import ECHO_IMAGE, NAMESPACE, SYSTEM, World, task

from orbiter_operator.pods.allowlist import template_error

CHART = Path(__file__).resolve().parents[2] / "helm" / "orbiter"
POLICY = "orbiter-system-orbiter-pod-template"
ALLOWED_HERE = ("spec.containers[worker].imagePullPolicy",)
"""What the tests' installation allows beyond the list."""
UNKNOWN = {"sepc", *(f"metadata.{field}" for field in METADATA)}
"""Fields that the resource definitions do not have: strictly refused, else left out."""
CASES = {k: v for k, v in REFUSED.items() if k not in UNKNOWN and k not in ALLOWED_HERE}
PATIENT_SECONDS = 60
HOST = pod(hostNetwork=True)


def named(number: int, prefix: str = "template") -> str:
    return f"{prefix}-{number}"


def tried(
    world: World,
    *objects: Object,
    flags: tuple[str, ...] = ("--dry-run=server",),
    namespace: str = NAMESPACE,
) -> str:
    """What the API server says against these objects; empty when it takes them all."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    words = ("-n", namespace, "create", "--validate=false", *flags, "-f", "-")
    try:
        world.kubectl(*words, stdin=listed)
    except CommandError as error:
        return str(error)
    return ""


def by_number(said: str) -> dict[int, str]:
    """The answers about numbered objects."""
    found = {}
    for line in said.splitlines():
        if number := re.search(r'"template-(\d+)"', line):
            found[int(number[1])] = line
    return found


@contextmanager
def without_policy(world: World) -> Iterator[None]:
    """The API server does not look at podTemplates while the block runs."""
    probe = agent_task("probe", podTemplate=HOST)
    binding = world.cluster.get("validatingadmissionpolicybinding", POLICY)
    for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"):
        binding["metadata"].pop(field, None)
    world.cluster.delete("validatingadmissionpolicybinding", POLICY)
    try:
        world.until("no policy", lambda: not tried(world, probe), PATIENT_SECONDS)
        yield
    finally:
        world.apply(binding)
        world.until("the policy", lambda: tried(world, probe), PATIENT_SECONDS)


@pytest.fixture(autouse=True)
def the_policy_holds(world: World) -> None:
    """A policy that has just been installed takes a moment to hold."""
    probe = agent_task("probe", podTemplate=HOST)
    world.until("the policy", lambda: tried(world, probe), PATIENT_SECONDS)


def test_the_table_has_every_field_of_this_kubernetes(world: World) -> None:
    schemas = json.loads(world.kubectl("get", "--raw", "/openapi/v3/api/v1"))["components"][
        "schemas"
    ]
    core = "io.k8s.api.core.v1"
    assert set(schemas[f"{core}.PodSpec"]["properties"]) <= POD.keys() | ALLOWED_OF_POD
    assert set(schemas[f"{core}.Container"]["properties"]) <= WORKER.keys() | ALLOWED_OF_WORKER
    meta = set(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"])
    assert meta <= METADATA.keys() | {"labels", "annotations"}


def test_the_api_server_understands_the_policy(world: World) -> None:
    found = world.cluster.get("validatingadmissionpolicy", POLICY)
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert not found["status"].get("typeChecking", {}).get("expressionWarnings")


@pytest.mark.parametrize("kind", ["AgentTask", "POSession"])
def test_every_field_that_is_not_on_the_list_is_refused_by_the_api_server(
    world: World, kind: str
) -> None:
    make = agent_task if kind == "AgentTask" else po_session
    said = by_number(
        tried(world, *(make(named(n), podTemplate=t) for n, t in enumerate(CASES.values())))
    )
    for number, field in enumerate(CASES):
        assert REFUSAL + field in said.get(number, ""), field
        assert HINTS.get(field, "") in said[number]


def test_a_field_that_the_resource_definition_does_not_have_is_refused_by_kubectl(
    world: World,
) -> None:
    for field in UNKNOWN:
        said = tried(
            world,
            agent_task("unknown", podTemplate=REFUSED[field]),
            flags=("--dry-run=server", "--validate=strict"),
        )
        assert "unknown field" in said
        assert field.rpartition(".")[2] in said


def test_what_is_on_the_list_is_accepted_by_the_api_server(world: World) -> None:
    assert tried(world, *(agent_task(n, podTemplate=t) for n, t in ACCEPTED.items())) == ""


def test_a_template_of_a_mebibyte_is_looked_at(world: World) -> None:
    much = worker(env=[{"name": f"A{number}", "value": "x" * 16000} for number in range(64)])
    assert tried(world, agent_task("much", podTemplate=much)) == ""
    much["spec"]["hostIPC"] = True
    assert "spec.podTemplate.spec.hostIPC is not" in tried(
        world, agent_task("much", podTemplate=much)
    )
    crowd = pod(**{f"field{number}": number for number in range(20000)})
    assert "podTemplate has fields that it may not have" in tried(
        world, agent_task("crowd", podTemplate=crowd)
    )


def test_our_own_secrets_are_refused_in_the_fields_of_the_spec_too(world: World) -> None:
    reference = {"secretKeyRef": {"name": "orbiter-redis-auth", "key": "a"}}
    agent = {"env": [{"name": "A", "valueFrom": reference}]}
    told = tried(world, agent_task("thief", agent=agent))
    assert "spec.agent.env[A].valueFrom.secretKeyRef.name is 'orbiter-redis-auth', a Secret" in told
    git = {"url": "https://git.example.com/r.git"}
    for secret in ("sh.helm.release.v1.orbiter.v1", "orbiter-redis-auth"):
        workspace = {"git": git | {"credentialsSecretRef": {"name": secret}}}
        told = tried(world, agent_task("thief", workspace=workspace))
        assert f"spec.workspace.git.credentialsSecretRef.name is '{secret}'" in told


@pytest.fixture
def lengthened(world: World) -> Iterator[str]:
    """A namespace in which another installation's policy holds, with more on its list."""
    name = "e2e-lengthened"
    flags = [f"workers.namespaces={json.dumps([name])}"]
    flags += [f"workers.podTemplate.{field}={json.dumps(value)}" for field, value in VALUES.items()]
    manifests = world.cluster.helm(
        *("template", name, str(CHART), "-n", SYSTEM, "-s", "templates/admission-policy.yaml"),
        *(word for flag in flags for word in ("--set-json", flag)),
    )
    world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    world.kubectl("apply", "-f", "-", stdin=manifests)
    try:
        world.until(
            "its policy",
            lambda: tried(world, agent_task("probe", podTemplate=HOST), namespace=name),
            PATIENT_SECONDS,
        )
        yield name
    finally:
        world.kubectl("delete", "-f", "-", stdin=manifests)
        world.cluster.delete("namespace", name)


def test_what_the_chart_adds_is_the_same_for_the_api_server_and_the_operator(
    world: World, lengthened: str
) -> None:
    rules = DEFAULTS._replace(
        template_fields=PATHS,
        priority_classes=tuple(VALUES["priorityClassNames"]),
        runtime_classes=tuple(VALUES["runtimeClassNames"]),
        tolerations=tuple(VALUES["tolerations"]),
    )
    tasks = [agent_task(named(n), podTemplate=t) for n, t in enumerate(LENGTHENED)]
    said = by_number(tried(world, *tasks, namespace=lengthened))
    expected = {n: told for n, t in enumerate(LENGTHENED) if (told := template_error(t, rules))}
    assert said.keys() == expected.keys()
    for number, told in expected.items():
        assert told in said[number]
    assert len(expected) == 9


def test_without_the_policy_the_operator_refuses_each_of_them(world: World) -> None:
    fields = list(CASES)
    tasks = [agent_task(named(n, "stored"), podTemplate=t) for n, t in enumerate(CASES.values())]
    with without_policy(world):
        assert tried(world, *tasks, flags=()) == ""
        ended = world.cluster.wait_for_all(
            "agenttasks",
            lambda found: all(
                found.get(named(number, "stored"), {}).get("status", {}).get("phase") == "Failed"
                for number in range(len(fields))
            ),
            namespace=NAMESPACE,
            seconds=120,
        )
    for number, field in enumerate(fields):
        status = ended[named(number, "stored")]["status"]
        assert status["reason"] == "InvalidSpec", field
        assert status["message"].startswith(REFUSAL + field), status["message"]
    jobs = world.cluster.list_all("jobs", NAMESPACE)
    assert not [job for job in jobs if job["metadata"]["name"].startswith("stored-")]


def test_what_was_there_before_the_policy_can_be_changed_elsewhere_and_deleted(
    world: World,
) -> None:
    old = po_session("old", userId=10**9 + 7, podTemplate=HOST)
    old["metadata"]["namespace"] = NAMESPACE
    with without_policy(world):
        world.apply(old)
    change = {"spec": {"idle": {"scaleToZeroAfterSeconds": 77}}}
    world.cluster.patch("posession", "old", change, NAMESPACE)
    more = {"spec": {"podTemplate": {"metadata": {"labels": {"a": "b"}}}}}
    with pytest.raises(CommandError, match=r"spec\.podTemplate\.spec\.hostNetwork is not for"):
        world.cluster.patch("posession", "old", more, NAMESPACE)
    world.cluster.patch("posession", "old", {"spec": {"podTemplate": None}}, NAMESPACE)
    world.cluster.delete("posession", "old", NAMESPACE)


def test_a_task_with_what_is_on_the_list_runs(world: World) -> None:
    given = worker(
        image=ECHO_IMAGE,
        env=[{"name": "COLOUR", "value": OURS}],
        resources={"requests": {"cpu": "5m", "memory": "32Mi"}},
    )
    given["metadata"] = {"labels": {"cost-center": "7"}, "annotations": {"example.com/a": "b"}}
    given["spec"] |= {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": 15,
        "imagePullSecrets": [{"name": "registry"}],
    }
    world.apply(task("on-the-list", "echo", podTemplate=given))
    world.wait("on-the-list", "Completed")
    [job] = world.jobs("on-the-list")
    template = job["spec"]["template"]
    assert template["metadata"]["labels"]["cost-center"] == "7"
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert {"name": "COLOUR", "value": OURS} in template["spec"]["containers"][0]["env"]
