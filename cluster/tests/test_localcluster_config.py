"""What the components are told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from localcluster.components import components
from localcluster.config import render
from localcluster.node import Node
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


def arguments(name: str) -> tuple[str, ...]:
    everything = components(NODE, Path("/s/programs"), "/usr/bin/containerd")
    return next(component.argv for component in everything if component.name == name)


def rendered(name: str, node: Node = NODE) -> Any:
    return json.loads(render(node)[name])


def test_a_node_takes_300_pods_and_has_addresses_for_them() -> None:
    assert rendered("kubelet.yaml")["maxPods"] == 300
    assert pod_network(NODE).num_addresses > 300


def test_policies_hold_for_a_pod_as_soon_as_it_has_an_address() -> None:
    plugins = rendered("cni/10-orbiter.conflist")["plugins"]
    assert [plugin["type"] for plugin in plugins] == ["ptp", "portmap", "pod-address"]


def test_who_enforces_policies_may_read_what_they_are_made_of_and_no_more() -> None:
    manifests = dict(basics(NODE))
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


def test_every_configuration_file_a_component_depends_on_is_rendered() -> None:
    everything = components(NODE, Path("/s/programs"), "/usr/bin/containerd")
    wanted = {name for component in everything for name in component.files}
    assert wanted <= render(NODE).keys()


def test_a_cluster_has_dns_at_the_usual_address_and_a_default_storage_class() -> None:
    manifests = {path.rsplit("/", 1)[-1]: manifest for path, manifest in basics(NODE)}
    default = "storageclass.kubernetes.io/is-default-class"
    assert manifests["kube-dns"]["spec"]["clusterIP"] == "10.96.0.10"
    assert manifests["standard"]["metadata"]["annotations"][default] == "true"
