"""The ordinary settings that charts have: each does what it does elsewhere, and to all its pods."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster, CommandError, Object
from support.manifests import read_manifests

pytestmark = pytest.mark.e2e

CHART = Path(__file__).resolve().parents[1] / "orbiter"
SERVER: Object = {"enabled": True, "agents": {"helper": {"model": "anthropic:claude-sonnet-4-5"}}}
COMPONENTS = {"operator": "Deployment", "server": "Deployment", "redis": "StatefulSet"}
WITH_VOLUMES = ["operator", "server"]
AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
TOLERATION = {"key": "agents", "operator": "Exists"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.fixture
def render(cluster: Cluster, tmp_path: Path) -> Any:
    """What helm makes of these values, by kind and name."""

    def render(**values: Any) -> dict[tuple[str, str], Object]:
        server = {**SERVER, **values.pop("server", {})}
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump({"server": server, **values}))
        text = cluster.helm(
            *("template", "orbiter", str(CHART), "-n", "orbiter-system", "-f", str(file))
        )
        items = read_manifests(text)
        return {(item["kind"], item["metadata"]["name"]): item for item in items}

    return render


def template_of(items: dict[tuple[str, str], Object], component: str) -> Object:
    """The pod template of a component."""
    found: Object = items[COMPONENTS[component], f"orbiter-{component}"]["spec"]["template"]
    return found


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize(
    ("setting", "value", "where"),
    [
        ("priorityClassName", "platform", "priorityClassName"),
        ("affinity", AFFINITY, "affinity"),
        ("tolerations", [TOLERATION], "tolerations"),
        ("nodeSelector", {"pool": "system"}, "nodeSelector"),
    ],
)
def test_where_pods_run(
    render: Any, component: str, setting: str, value: object, where: str
) -> None:
    items = render(**{component: {setting: value}})
    assert template_of(items, component)["spec"][where] == value
    others = [template_of(items, other)["spec"] for other in COMPONENTS if other != component]
    assert all(spec.get(where) != value for spec in others)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_spread_without_a_selector_is_about_the_components_own_pods(
    render: Any, component: str
) -> None:
    own = {**SPREAD, "labelSelector": {"matchLabels": {"team": "a"}}}
    items = render(**{component: {"topologySpreadConstraints": [SPREAD, own]}})
    template = template_of(items, component)
    first, second = template["spec"]["topologySpreadConstraints"]
    labels = first.pop("labelSelector")["matchLabels"]
    assert (first, second) == (SPREAD, own)
    assert labels["app.kubernetes.io/component"] == component
    assert labels.items() <= template["metadata"]["labels"].items()


@pytest.mark.parametrize("component", COMPONENTS)
def test_labels_and_annotations_of_pods_and_none_that_select_them(
    render: Any, component: str
) -> None:
    labels = {"team": "platform", "app.kubernetes.io/component": "mine"}
    given = {"podLabels": labels, "podAnnotations": {"scrape": True, "port": 9090}}
    meta = template_of(render(**{component: given}), component)["metadata"]
    assert meta["labels"]["team"] == "platform"
    assert meta["labels"]["app.kubernetes.io/component"] == component
    assert {"scrape": "true", "port": "9090"}.items() <= meta["annotations"].items()


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_null_takes_a_number_away_and_leaves_the_rest(render: Any, component: str) -> None:
    """As OpenShift wants it, which chooses user and group itself."""
    none = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    items = render(**{component: {"podSecurityContext": none}})
    left = template_of(items, component)["spec"]["securityContext"]
    assert not {*none} & {*left}
    assert left["runAsNonRoot"] is True
    assert left["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_a_container_may_can_be_changed_one_by_one(render: Any, component: str) -> None:
    items = render(**{component: {"securityContext": {"readOnlyRootFilesystem": False}}})
    [container] = template_of(items, component)["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("component", WITH_VOLUMES)
def test_more_variables_and_volumes(render: Any, component: str) -> None:
    variable = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
    volume = {"name": "ca", "configMap": {"name": "company-ca"}}
    mount = {"name": "ca", "mountPath": "/etc/company", "readOnly": True}
    given = {"extraEnv": [variable], "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    spec = template_of(render(**{component: given}), component)["spec"]
    [container] = spec["containers"]
    assert variable in container["env"]
    assert mount in container["volumeMounts"]
    assert volume in spec["volumes"]


@pytest.mark.parametrize("component", WITH_VOLUMES)
def test_annotations_of_a_service_account(render: Any, component: str) -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}
    items = render(**{component: {"serviceAccount": {"annotations": role}}})
    assert items["ServiceAccount", f"orbiter-{component}"]["metadata"]["annotations"] == role


def test_the_program_that_makes_secrets_runs_where_the_operator_does(render: Any) -> None:
    given = {"tolerations": [TOLERATION], "podLabels": {"team": "a"}, "priorityClassName": "high"}
    template = render(operator=given)["Job", "orbiter-make-secrets"]["spec"]["template"]
    assert template["spec"]["tolerations"] == [TOLERATION]
    assert template["spec"]["priorityClassName"] == "high"
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "secrets"


def images_of(items: dict[tuple[str, str], Object]) -> set[str]:
    """Every image that the chart's pods have, or that the operator gives to workers."""
    found: set[str] = set()
    for item in items.values():
        for container in (
            item.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        ):
            found.add(container["image"])
            for variable in container.get("env", ()):
                if variable["name"] == "ORBITER_WORKER_IMAGES":
                    found |= set(yaml.safe_load(variable["value"]).values())
    return found


def test_one_registry_has_every_image(render: Any) -> None:
    own = {"workers": {"codex": "registry.example.com:5000/agents/codex@sha256:0", "claude": "a/b"}}
    images = images_of(render(**{"global": {"imageRegistry": "mirror:5000"}}, images=own))
    assert all(image.startswith("mirror:5000/") for image in images)
    assert {
        "mirror:5000/orbiter/operator:dev",
        "mirror:5000/orbiter/server:dev",
        "mirror:5000/valkey/valkey:8.1",
        "mirror:5000/agents/codex@sha256:0",
        "mirror:5000/a/b",
    } <= images


def test_pull_secrets_are_everywhere(render: Any) -> None:
    items = render(**{"global": {"imagePullSecrets": ["b"]}}, images={"pullSecrets": ["a"]})
    wanted = [{"name": "a"}, {"name": "b"}]
    assert all(template_of(items, c)["spec"]["imagePullSecrets"] == wanted for c in COMPONENTS)
    job = items["Job", "orbiter-make-secrets"]["spec"]["template"]["spec"]
    assert job["imagePullSecrets"] == wanted
    assert items["ServiceAccount", "orbiter-worker"]["imagePullSecrets"] == wanted


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"nameOverride": "agents"}, "orbiter-agents-operator"),
        ({"fullnameOverride": "platform"}, "platform-operator"),
    ],
)
def test_names_can_be_others_and_labels_stay(render: Any, values: Object, name: str) -> None:
    operator = render(**values)["Deployment", name]
    assert operator["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "orbiter"


def test_an_ingress_leads_to_the_server(render: Any) -> None:
    tls = [{"secretName": "agents-tls", "hosts": ["agents.example.com"]}]
    given = {
        "enabled": True,
        "className": "nginx",
        "annotations": {"a": "b"},
        "hosts": ["agents.example.com"],
        "tls": tls,
    }
    items = render(server={"ingress": given})
    ingress = items["Ingress", "orbiter-server"]
    assert ingress["metadata"]["annotations"] == {"a": "b"}
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == tls
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert rule["host"] == "agents.example.com"
    assert path["backend"]["service"] == {"name": "orbiter-server", "port": {"name": "http"}}
    assert ("Service", "orbiter-server") in items


def test_a_route_of_a_gateway_leads_to_the_server(render: Any) -> None:
    parent = {"name": "public", "namespace": "gateways"}
    given = {"enabled": True, "parentRefs": [parent], "hostnames": ["agents.example.com"]}
    route = render(server={"httpRoute": given})["HTTPRoute", "orbiter-server"]["spec"]
    assert route["parentRefs"] == [parent]
    assert route["hostnames"] == ["agents.example.com"]
    [rule] = route["rules"]
    assert rule["backendRefs"] == [{"name": "orbiter-server", "port": 8000}]


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ({"ingress": {"enabled": True}}, "name one in server.ingress.hosts"),
        ({"httpRoute": {"enabled": True}}, "name it in server.httpRoute.parentRefs"),
    ],
)
def test_a_way_in_that_leads_nowhere_is_refused(render: Any, server: Object, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        render(server=server)


READS = {
    "apiGroups": [""],
    "resources": ["secrets"],
    "resourceNames": ["orbiter-transcript"],
    "verbs": ["get"],
}


def test_without_transcripts_the_server_reads_no_secret_and_reaches_no_redis(render: Any) -> None:
    items = render()
    roles = [item for (kind, _), item in items.items() if kind in ("Role", "ClusterRole")]
    server = [role for role in roles if "server" in role["metadata"]["name"]]
    assert server
    assert all("secrets" not in rule["resources"] for role in server for rule in role["rules"])
    policy = items["NetworkPolicy", "orbiter-server"]["spec"]["egress"]
    assert all(port["port"] != 6379 for rule in policy for port in rule["ports"])
    [ingress] = items["NetworkPolicy", "orbiter-redis"]["spec"]["ingress"]
    assert "server" not in str(ingress)


def test_with_transcripts_it_reads_one_secret_and_reaches_redis(render: Any) -> None:
    items = render(server={"transcripts": True})
    assert READS in items["Role", "orbiter-server"]["rules"]
    [container] = template_of(items, "server")["spec"]["containers"]
    assert "--transcripts" in container["args"]
    policy = items["NetworkPolicy", "orbiter-server"]["spec"]["egress"]
    assert any(port["port"] == 6379 for rule in policy for port in rule["ports"])
    [ingress] = items["NetworkPolicy", "orbiter-redis"]["spec"]["ingress"]
    labels = [peer.get("podSelector", {}).get("matchLabels", {}) for peer in ingress["from"]]
    assert "server" in [each.get("app.kubernetes.io/component") for each in labels]


def test_objects_of_yours_as_they_are_and_as_templates(render: Any) -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "whole"}}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-text'}\n"
    items = render(extraObjects=[whole, text])
    assert ("ConfigMap", "whole") in items
    assert ("ConfigMap", "orbiter-text") in items


def test_a_collector_gets_the_traces_and_the_operator_a_way_to_it(render: Any) -> None:
    variables = ("ORBITER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS")

    def told(items: dict[tuple[str, str], Object]) -> tuple[list[Object], list[Object]]:
        (operator,) = template_of(items, "operator")["spec"]["containers"]
        egress = items["NetworkPolicy", "orbiter-operator"]["spec"]["egress"]
        rules = [rule for rule in egress if {"port": 4319, "protocol": "TCP"} in rule["ports"]]
        return [one for one in operator["env"] if one["name"] in variables], rules

    peers = [{"podSelector": {"matchLabels": {"app": "collector"}}}]
    collector = {"endpoint": "http://collector:4319", "port": 4319, "peers": peers}
    env, rules = told(render(tracing={**collector, "headersSecretName": "collector-token"}))
    assert env == [
        {"name": variables[0], "value": "http://collector:4319"},
        {
            "name": variables[1],
            "valueFrom": {"secretKeyRef": {"name": "collector-token", "key": "headers"}},
        },
    ]
    assert rules == [{"ports": [{"port": 4319, "protocol": "TCP"}], "to": peers}]
    assert told(render(tracing={"port": 4319})) == ([], [])


def test_how_long_finished_tasks_are_kept(render: Any) -> None:
    def told(items: dict[tuple[str, str], Object]) -> dict[str, str]:
        (operator,) = template_of(items, "operator")["spec"]["containers"]
        found = {one["name"]: one.get("value") for one in operator["env"]}
        return {name: value for name, value in found.items() if name.endswith("K_TTL_SECONDS")
                or name.endswith("T_TTL_SECONDS")}  # fmt: skip

    assert told(render()) == {}
    kept = render(workers={"taskTTLSeconds": 0}, adoption={"ttlSecondsAfterFinished": 2592000})
    assert told(kept) == {
        "ORBITER_TASK_TTL_SECONDS": "0", "ORBITER_ADOPT_TTL_SECONDS": "2592000",
    }  # fmt: skip
