"""What a spec may not lay over the installation's own pod template, however long its list is."""

import pytest
from support.observed import observed, spec
from support.running_sessions import DEFAULTS as PLAIN

from orbiter_operator.pods.rules import installation_error
from orbiter_operator.pods.template import lay_over
from orbiter_operator.tasks.observe import read_spec

FIELD = {"fieldRef": {"fieldPath": "metadata.namespace"}}
NODE = {"name": "node", "hostPath": {"path": "/var/lib/kubelet"}}
TEMPLATE = {
    "spec": {
        "volumes": [NODE, {"name": "cache", "hostPath": {"path": "/cache"}},
                    {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        "initContainers": [{"name": "prepare", "image": "prepare:1"}],
        "containers": [
            {
                "name": "worker",
                "env": [
                    {"name": "TEAM", "valueFrom": FIELD},
                    {"name": "PLACE", "value": "of/$(TEAM)"},
                    {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
                ],
                "volumeMounts": [
                    {"name": "cache", "mountPath": "/cache", "subPathExpr": "$(PLACE)"},
                ],
            },
            {
                "name": "proxy",
                "image": "proxy:1",
                "securityContext": {"privileged": True},
                "volumeMounts": [{"name": "node", "mountPath": "/node"}],
            },
        ],
    }
}  # fmt: skip
DEFAULTS = PLAIN._replace(
    template_fields=(
        *("spec.containers[].image", "spec.containers[].volumeMounts"),
        *("spec.containers[worker].volumeMounts", "spec.containers[worker].volumeDevices"),
        *("spec.initContainers", "spec.volumes[].configMap", "spec.volumes[].emptyDir"),
    ),
    pod_template=TEMPLATE,
)


def worker(**fields):
    return {"podTemplate": {"spec": {"containers": [{"name": "worker", **fields}]}}}


def why(said):
    return read_spec({"prompt": "do it", **said}, DEFAULTS)[1]


def pod(**fields):
    return {"podTemplate": {"spec": fields}}


@pytest.mark.parametrize(
    ("said", "where"),
    [
        (pod(containers=[{"name": "proxy", "image": "mine:1"}]), "containers[proxy]"),
        (pod(initContainers=[{"name": "proxy", "image": "mine:1"}]), "initContainers[proxy]"),
        (pod(initContainers=[{"name": "prepare", "image": "mine:1"}]), "initContainers[prepare]"),
        (worker(volumeMounts=[{"name": "node", "mountPath": "/n"}]), "volumeMounts[/n]"),
        (worker(volumeMounts=[{"mountPath": "/cache", "subPath": "x"}]), "volumeMounts[/cache]"),
        (worker(volumeMounts=[{"mountPath": "/cache", "subPathExpr": None}]), "[/cache]"),
        (worker(volumeDevices=[{"name": "node", "devicePath": "/n"}]), "volumeDevices[/n]"),
        (
            pod(containers=[{"name": "mine", "image": "mine:1",
                             "volumeMounts": [{"name": "node", "mountPath": "/n"}]}]),
            "containers[mine].volumeMounts[/n]",
        ),
        (
            pod(initContainers=[{"name": "mine", "image": "mine:1",
                                 "volumeMounts": [{"name": "node", "mountPath": "/n"}]}]),
            "initContainers[mine].volumeMounts[/n]",
        ),
        (pod(volumes=[{"name": "node", "configMap": {"name": "mine"}}]), "volumes[node]"),
        (worker(env=[{"name": "PLACE", "value": "of/team-b"}]), "env[PLACE]"),
        (worker(env=[{"name": "TEAM", "value": "team-b"}]), "env[TEAM]"),
        ({"agent": {"env": [{"name": "TEAM", "value": "team-b"}]}}, "spec.agent.env[TEAM]"),
    ],
)  # fmt: skip
def test_what_is_the_installations_own_is_not_for_a_spec_to_change_or_to_use(said, where):
    assert installation_error(DEFAULTS) is None
    problem = why(said)
    assert where in (problem or "")
    assert "installation's" in (problem or "")


def test_what_is_ones_own_goes_beside_it():
    said = pod(
        volumes=[{"name": "mine", "configMap": {"name": "mine"}},
                 {"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}}],
        initContainers=[{"name": "first", "image": "mine:1"}],
        containers=[
            {"name": "worker", "image": "own:1", "env": [{"name": "HTTPS_PROXY", "value": ""}],
             "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]},
            {"name": "beside", "image": "mine:1"},
        ],
    )  # fmt: skip
    assert why(said) is None
    seen = observed(spec=spec(**said))
    made = lay_over(seen.spec.agent, seen.spec.workspace, said["podTemplate"], DEFAULTS)["spec"]
    assert [each["name"] for each in made["containers"]] == ["worker", "proxy", "beside"]
    assert {"node", "cache", "tmp", "mine"} <= {each["name"] for each in made["volumes"]}


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_label_that_says_whose_part_of_a_volume_it_is_is_not_for_a_spec_to_say(kind):
    source = {"fieldRef": {"fieldPath": f"metadata.{kind}['team']"}}
    mount = {"name": "cache", "mountPath": "/cache", "subPathExpr": "$(TEAM)"}
    env = [{"name": "TEAM", "valueFrom": source}]
    container = {"name": "worker", "env": env, "volumeMounts": [mount]}
    template = {
        "metadata": {kind: {"team": "a", "free": "1"}},
        "spec": {
            "volumes": [{"name": "cache", "hostPath": {"path": "/cache"}}],
            "containers": [container],
        },
    }
    defaults = DEFAULTS._replace(pod_template=template)
    for key, refused in (("team", True), ("free", False)):
        said = {"podTemplate": {"metadata": {kind: {key: "b"}}}}
        problem = read_spec({"prompt": "do it", **said}, defaults)[1]
        assert (f"metadata.{kind}[team]" in (problem or "")) is refused
    problem = read_spec({"prompt": "do it", "podTemplate": {"metadata": {kind: None}}}, defaults)[1]
    assert f"metadata.{kind}" in (problem or "")
