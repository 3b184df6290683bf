"""Who may talk to whom, as helm renders it; tests/e2e/test_e2e_network.py has what comes of it."""

import ipaddress
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, CommandError, Object
from support.manifests import read_manifests

from .test_chart_render import only, render

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ("orbiter-operator", "orbiter-worker")
CLUSTER_DNS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}


def egress(cluster: Cluster, *settings: str, name: str = "orbiter-worker") -> list[Object]:
    rules: list[Object] = only(render(cluster, *settings), "NetworkPolicy", name)["spec"]["egress"]
    return rules


def with_port(rules: list[Object], port: int) -> list[Object]:
    return [rule for rule in rules if port in [one["port"] for one in rule["ports"]]]


def allows(rules: list[Object], address: str) -> bool:
    """Whether some rule's network has the address and its exceptions have not."""
    wanted = ipaddress.ip_address(address)

    def within(network: str) -> bool:
        return wanted in ipaddress.ip_network(network)

    def blocks() -> Iterator[Object]:
        for rule in rules:
            yield from (peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer)

    return any(within(b["cidr"]) and not any(map(within, b.get("except", []))) for b in blocks())


def test_nobody_calls_a_worker_and_both_directions_are_limited(cluster: Cluster) -> None:
    policy = only(render(cluster), "NetworkPolicy", "orbiter-worker")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    # An empty list would say the same, and make each apply of the operator a write.
    assert "ingress" not in policy


@pytest.mark.parametrize(
    "address",
    [
        *("10.96.0.1", "172.16.3.4", "172.31.255.255", "192.168.1.1", "100.64.0.9"),
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254"),
        *("127.0.0.1", "0.0.0.0", "198.18.0.2", "224.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fc00::1", "ff02::1"),
    ],
)
def test_what_is_not_public_is_closed_to_workers(cluster: Cluster, address: str) -> None:
    assert not allows(egress(cluster), address)


@pytest.mark.parametrize("address", ["192.0.2.1", "160.79.104.10", "1.1.1.1", "2607:6bc0::10"])
def test_public_addresses_are_open_for_https_alone(cluster: Cluster, address: str) -> None:
    rules = egress(cluster)
    opening = [rule for rule in rules if allows([rule], address)]
    assert [rule["ports"] for rule in opening] == [[{"port": 443, "protocol": "TCP"}]]


def test_every_rule_of_a_worker_says_to_whom(cluster: Cluster) -> None:
    assert all(rule.get("to") for rule in egress(cluster))


@pytest.mark.parametrize("name", POLICIES)
def test_dns_is_the_clusters_own(cluster: Cluster, name: str) -> None:
    (rule,) = with_port(egress(cluster, name=name), 53)
    assert rule["to"] == [CLUSTER_DNS]


def test_dns_may_be_elsewhere(cluster: Cluster) -> None:
    cache = "networkPolicy.dns[0].ipBlock.cidr=169.254.20.10/32"
    (rule,) = with_port(egress(cluster, cache), 53)
    assert rule["to"] == [{"ipBlock": {"cidr": "169.254.20.10/32"}}]


def test_a_public_api_server_is_taken_out_of_everywhere(cluster: Cluster) -> None:
    server, other = "203.0.113.7", "203.0.113.8"
    told = ("networkPolicy.apiServerAddresses={203.0.113.7/32,2001:db8::7/128}",)
    assert allows(egress(cluster), server)
    rules = egress(cluster, *told)
    assert [allows(rules, one) for one in (server, other)] == [False, True]
    assert [allows(rules, one) for one in ("2001:db8::7", "2001:db8::8")] == [False, True]
    everywhere = (*told, "networkPolicy.egress[0].to[0].ipBlock.cidr=0.0.0.0/0")
    assert not allows(egress(cluster, *everywhere), server)
    named = (*told, f"networkPolicy.egress[0].to[0].ipBlock.cidr={server}/32")
    assert allows(egress(cluster, *named), server)


def test_one_namespace_may_have_more_than_the_others(cluster: Cluster) -> None:
    items = render(
        cluster,
        "workers.namespaces={team-a,team-b}",
        "networkPolicy.egressByNamespace.team-a[0].ports[0].port=22",
        "networkPolicy.egressByNamespace.team-a[0].to[0].ipBlock.cidr=10.1.2.3/32",
    )
    rules = {
        item["metadata"]["namespace"]: item["spec"]["egress"]
        for item in items
        if item["kind"] == "NetworkPolicy" and item["metadata"]["name"] == "orbiter-worker"
    }
    more = {"ports": [{"port": 22}], "to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]}
    assert rules["team-a"] == [*rules["team-b"], more]


def test_a_namespace_without_workers_gets_no_rules(cluster: Cluster) -> None:
    wrong = "networkPolicy.egressByNamespace.team-x[0].ports[0].port=22"
    with pytest.raises(CommandError, match='has "team-x", where no worker can run'):
        render(cluster, wrong)


def test_a_model_in_the_cluster_is_one_more_door(cluster: Cluster) -> None:
    rules = egress(
        cluster,
        "networkPolicy.modelServer.enabled=true",
        "networkPolicy.modelServer.namespace=models",
        "networkPolicy.modelServer.podLabels.app=model",
    )
    (rule,) = with_port(rules, 8080)
    assert rule["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "models"}},
            "podSelector": {"matchLabels": {"app": "model"}},
        }
    ]


def test_the_page_of_the_scripted_model_opens_the_way_to_its_pods(cluster: Cluster) -> None:
    text = (ROOT / "docs" / "model-server.md").read_text().replace("\\\n", " ")
    [typed] = re.findall(r"^helm upgrade .*$", text, re.MULTILINE)
    settings = [word for word in shlex.split(typed) if word.startswith("networkPolicy.")]
    manifest = ROOT / "tests" / "e2e" / "manifests" / "model-server.yaml"
    pod = only(read_manifests(manifest.read_text()), "Deployment")["spec"]["template"]
    [port] = pod["spec"]["containers"][0]["ports"]
    (rule,) = with_port(egress(cluster, *settings), port["containerPort"])
    [peer] = rule["to"]
    assert peer["podSelector"]["matchLabels"] == pod["metadata"]["labels"]
    [namespace] = peer["namespaceSelector"]["matchLabels"].values()
    assert f"kubectl apply -n {namespace} -f tests/e2e/manifests/model-server.yaml" in text


def test_redis_lets_in_the_operator_and_workers_and_goes_nowhere(cluster: Cluster) -> None:
    policy = only(render(cluster), "NetworkPolicy", "orbiter-redis")["spec"]
    assert policy["egress"] == []
    [rule] = policy["ingress"]
    allowed = [peer["podSelector"]["matchLabels"] for peer in rule["from"]]
    assert [labels.get("app.kubernetes.io/component", "worker") for labels in allowed] == [
        *("operator", "worker")
    ]


def test_an_external_redis_is_anywhere_until_it_is_said_where(cluster: Cluster) -> None:
    mine = ("redis.external.existingSecret=mine", "redis.external.port=6380")
    assert {"ports": [{"port": 6380, "protocol": "TCP"}]} in egress(cluster, *mine)
    where = "redis.external.peers[0].ipBlock.cidr=10.9.8.7/32"
    for name in POLICIES:
        (rule,) = with_port(egress(cluster, *mine, where, name=name), 6380)
        assert rule["to"] == [{"ipBlock": {"cidr": "10.9.8.7/32"}}]


def test_the_rules_are_the_same_at_every_render(cluster: Cluster) -> None:
    told = ("networkPolicy.apiServerAddresses={203.0.113.7/32}",)
    policies = [
        json.dumps([item for item in render(cluster, *told) if item["kind"] == "NetworkPolicy"])
        for _ in range(2)
    ]
    assert all(one == other for one, other in itertools.pairwise(policies))


def test_who_leaves_is_let_into_redis_by_a_policy_that_the_operator_may_write_and_no_other(
    cluster: Cluster,
) -> None:
    selector = "workers.namespaceSelector.matchLabels.tenant=yes"
    objects = render(cluster, selector)
    files = only(objects, "ConfigMap", "orbiter-operator-namespace")["data"]
    policy = json.loads(files["redis-policy.json"])
    beside = only(objects, "NetworkPolicy", "orbiter-redis")
    assert policy["spec"]["podSelector"] == beside["spec"]["podSelector"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == beside["spec"]["ingress"][0]["ports"]
    (peer,) = rule["from"]
    by_label = beside["spec"]["ingress"][0]["from"][-1]
    assert peer["podSelector"] == by_label["podSelector"]
    (owner,) = policy["metadata"]["ownerReferences"]
    right, of_owner = only(objects, owner["kind"], owner["name"])["rules"]
    assert right["resourceNames"] == [policy["metadata"]["name"]]
    assert right["verbs"] == ["patch", "delete"]
    assert (of_owner["resourceNames"], of_owner["verbs"]) == ([owner["name"]], ["get"])
    external = render(cluster, selector, "redis.external.existingSecret=ours")
    assert (
        "redis-policy.json" not in only(external, "ConfigMap", "orbiter-operator-namespace")["data"]
    )
