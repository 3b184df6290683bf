"""What the components are told."""

import ipaddress
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from localcluster.components import components
from localcluster.config import render
from localcluster.dns import deployment, is_ready
from localcluster.node import MAX_NODES, POD_CIDR, Node
from localcluster.objects import basics
from localcluster.pki import apiserver_names

NODE = Node(
    id="0123abcd",
    links=(7,),
    pki=Path("/s/pki"),
    config=Path("/s/con fig"),
    etcd=Path("/s/etcd"),
    volumes=Path("/s/volumes"),
    cni_plugins=Path("/usr/lib/cni"),
)


SECOND = replace(NODE, links=(7, 9), number=2)


def named(node: Node) -> dict[str, tuple[str, ...]]:
    everything = components(node, Path("/s/programs"), "/usr/bin/containerd")
    return {component.name: component.argv for component in everything}


def arguments(name: str) -> tuple[str, ...]:
    return named(NODE)[name]


def pod_network(node: Node) -> ipaddress.IPv4Network:
    ipam = rendered("cni/10-orbiter.conflist", node)["plugins"][0]["ipam"]
    return ipaddress.IPv4Network(ipam["ranges"][0][0]["subnet"])


def rendered(name: str, node: Node = NODE) -> Any:
    return json.loads(render(node)[name])


def test_a_node_takes_300_pods_and_has_addresses_for_them() -> None:
    assert rendered("kubelet.yaml")["maxPods"] == 300
    assert pod_network(NODE).num_addresses > 300


def test_policies_hold_for_a_pod_as_soon_as_it_has_an_address() -> None:
    plugins = rendered("cni/10-orbiter.conflist")["plugins"]
    assert [plugin["type"] for plugin in plugins] == ["ptp", "portmap", "pod-address"]


def test_who_enforces_policies_may_read_what_they_are_made_of_and_no_more() -> None:
    manifests = dict(basics(deployment(NODE, "/s/localcluster", [])))
    role = manifests["/apis/rbac.authorization.k8s.io/v1/clusterroles/system:network-policies"]
    resources = {name: rule["verbs"] for rule in role["rules"] for name in rule["resources"]}
    kinds = ("pods", "namespaces", "networkpolicies")
    assert resources == {kind: ["list", "watch"] for kind in kinds}


def test_the_kubelet_does_not_limit_processes_or_pull_one_by_one() -> None:
    kubelet = rendered("kubelet.yaml")
    assert "podPidsLimit" not in kubelet
    assert kubelet["serializeImagePulls"] is False


def test_bursts_of_jobs_are_not_held_back_by_the_controller_manager() -> None:
    assert {"--kube-api-qps=300", "--kube-api-burst=600"} <= set(arguments("controller-manager"))


def test_the_api_server_authorizes_and_restricts_nodes() -> None:
    assert "--authorization-mode=Node,RBAC" in arguments("apiserver")
    assert "--enable-admission-plugins=NodeRestriction" in arguments("apiserver")


def test_the_api_server_is_certified_for_the_node_and_its_service() -> None:
    assert "IP:198.18.7.2" in apiserver_names(NODE)
    assert "IP:10.96.0.1" in apiserver_names(NODE)


def test_foreign_names_do_not_exist_without_egress() -> None:
    corefile = render(NODE)["Corefile"]
    assert "rcode NXDOMAIN" in corefile
    assert "forward" not in corefile


def test_foreign_names_are_forwarded_with_egress() -> None:
    corefile = render(replace(NODE, nameservers=("192.0.2.53",)))["Corefile"]
    assert "forward . 192.0.2.53" in corefile
    assert "NXDOMAIN" not in corefile


def test_dns_survives_a_path_with_spaces() -> None:
    assert 'kubeconfig "/s/con fig/coredns.kubeconfig"' in render(NODE)["Corefile"]


def pod_of(node: Node) -> Any:
    return deployment(node, "/s/localcluster", ["/lib"])["spec"]["template"]


def test_dns_is_ready_when_the_pod_last_asked_for_is() -> None:
    status = {"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 1}
    assert is_ready({"metadata": {"generation": 2}, "status": status})
    assert not is_ready({"metadata": {"generation": 3}, "status": status})
    assert not is_ready({"metadata": {"generation": 2}, "status": {}})
    assert not is_ready(None)


def test_dns_is_a_pod_that_begins_anew_when_it_is_told_something_else() -> None:
    def told(node: Node) -> Any:
        return pod_of(node)["metadata"]["annotations"]

    assert told(NODE) == told(replace(NODE, volumes=Path("/elsewhere")))
    assert told(NODE) != told(replace(NODE, nameservers=("192.0.2.53",)))


def test_dns_sees_of_this_machine_what_it_needs_and_cannot_write_it() -> None:
    spec = pod_of(NODE)["spec"]
    seen = {volume["hostPath"]["path"] for volume in spec["volumes"]}
    assert seen == {
        *("/s/localcluster", "/lib", "/s/pki/ca.crt", "/s/pki/coredns.crt", "/s/pki/coredns.key"),
        *("/s/con fig/Corefile", "/s/con fig/coredns.kubeconfig"),
    }
    assert all(mount["readOnly"] for mount in spec["containers"][0]["volumeMounts"])


def test_every_configuration_file_a_component_depends_on_is_rendered() -> None:
    everything = components(NODE, Path("/s/programs"), "/usr/bin/containerd")
    wanted = {name for component in everything for name in component.files}
    assert wanted <= render(NODE).keys()


def test_a_cluster_has_dns_at_the_usual_address_and_a_default_storage_class() -> None:
    manifests = {
        path.rsplit("/", 1)[-1]: manifest
        for path, manifest in basics(deployment(NODE, "/s/localcluster", []))
    }
    default = "storageclass.kubernetes.io/is-default-class"
    assert manifests["kube-dns"]["spec"]["clusterIP"] == "10.96.0.10"
    assert manifests["kube-dns"]["spec"]["selector"] == pod_of(NODE)["metadata"]["labels"]
    assert manifests["standard"]["metadata"]["annotations"][default] == "true"


def test_a_further_node_has_what_runs_pods_and_no_control_plane() -> None:
    assert list(named(SECOND)) == ["containerd", "kubelet", "proxy", "policies"]
    assert "--hostname-override=local-2" in named(SECOND)["kubelet"]
    assert "--node-ip=198.18.9.2" in named(SECOND)["kubelet"]


def test_everything_of_a_further_node_asks_the_first_ones_api_server() -> None:
    configured = [rendered(name, SECOND) for name in render(SECOND) if name.endswith("kubeconfig")]
    servers = {one["clusters"][0]["cluster"]["server"] for one in configured}
    assert servers == {"https://198.18.7.2:6443"}


def test_nodes_share_the_pod_network_and_no_address_of_it() -> None:
    nodes = [replace(NODE, links=(7, 8, 9, 10), number=n + 1) for n in range(MAX_NODES)]
    networks = [pod_network(node) for node in nodes]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(networks, 2))
    assert all(network.subnet_of(ipaddress.IPv4Network(POD_CIDR)) for network in networks)


def test_a_further_node_changes_nothing_that_the_first_one_was_told() -> None:
    beside = replace(NODE, links=(7, 9))
    assert render(beside) == render(NODE)
    assert named(beside) == named(NODE)


def test_a_further_node_is_known_by_a_certificate_and_a_cgroup_of_its_own() -> None:
    kubelet = rendered("kubelet.kubeconfig", SECOND)["users"][0]["user"]
    assert kubelet["client-certificate"] == "/s/pki/kubelet-local-2.crt"
    assert rendered("kubelet.yaml", SECOND)["cgroupRoot"] == "/orbiter-0123abcd/node2"
    assert SECOND.device == "orb0123abcd-2"
    assert len(SECOND.device) < 16  # the kernel's limit
