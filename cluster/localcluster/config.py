"""Configuration files of the components, rendered from the node's facts. Pure.

Kubernetes reads JSON wherever it reads YAML, so the standard library is enough.
"""

import json
from collections.abc import Mapping
from typing import Any

from localcluster import dns
from localcluster import node as facts
from localcluster.cgroups import SHIMS
from localcluster.node import Node

CLIENTS = {
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "policies": "/CN=system:network-policies",
    "coredns": "/CN=system:coredns",
    "volumes": "/CN=system:volume-provisioner",
}


# No issuer of identities; the API server reads the file again when a test puts one there.
_AUTHENTICATION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AuthenticationConfiguration",
    "jwt": [],
}


def render(node: Node) -> Mapping[str, str]:
    """File name -> content for everything below the node's config directory."""
    files = {
        "containerd.toml": _containerd(node),
        "cni/10-orbiter.conflist": _dump(_cni(node)),
        "kubelet.yaml": _dump(_kubelet(node)),
        "proxy.yaml": _dump(_proxy(node)),
        "Corefile": dns.corefile(node),
        "authentication.yaml": _dump(_AUTHENTICATION),
    }
    for name in CLIENTS:
        files[f"{name}.kubeconfig"] = _dump(_client_kubeconfig(node, name))
    files["kubelet.kubeconfig"] = _dump(_client_kubeconfig(node, f"kubelet-{node.name}"))
    return files


def kubeconfig(server: str, ca: str, user: Mapping[str, str], name: str) -> dict[str, Any]:
    """A kubeconfig with one context; `ca` is base64 PEM, `user` the user's entries."""
    cluster = {"server": server, "certificate-authority-data": ca}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _client_kubeconfig(node: Node, name: str) -> dict[str, Any]:
    cluster = {
        "server": f"https://{node.api_ip}:6443",
        "certificate-authority": str(node.pki / "ca.crt"),
    }
    user = {
        "client-certificate": str(node.pki / f"{name}.crt"),
        "client-key": str(node.pki / f"{name}.key"),
    }
    rendered = kubeconfig("", "", user, "local")
    rendered["clusters"] = [{"name": "local", "cluster": cluster}]
    return rendered


def _containerd(node: Node) -> str:
    # restrict_oom_score_adj: machines without CAP_SYS_RESOURCE may not lower the OOM score.
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{facts.CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{facts.PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  max_concurrent_downloads = 10
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{node.cni_plugins}"
    conf_dir = "{node.config / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      ShimCgroup = "/{node.cgroup}/{SHIMS}"
"""


def _cni(node: Node) -> dict[str, Any]:
    # ptp routes every packet through the node, so Services work between pods of one node without
    # the br_netfilter module, and the number of pods is not bound by a bridge's ports.
    ptp = {
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": node.pod_cidr}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    # Last, when the pod has its address: it waits until the network policies hold for it.
    announce = {"type": "pod-address"}
    return {"cniVersion": "0.4.0", "name": "orbiter", "plugins": [ptp, portmap, announce]}


def _kubelet(node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{facts.CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "maxPods": facts.MAX_PODS,
        "serializeImagePulls": False,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
        # It is renewed four times as often: a lost node is missed after 20 s (components.py).
        "nodeLeaseDurationSeconds": 12,
        "clusterDNS": [facts.DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(node.pki / f"kubelet-server-{node.link}.crt"),
        "tlsPrivateKeyFile": str(node.pki / f"kubelet-server-{node.link}.key"),
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
    }


def _proxy(node: Node) -> dict[str, Any]:
    # The conntrack limits are the host's business and read-only inside the node.
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(node.config / "proxy.kubeconfig")},
        "clusterCIDR": facts.POD_CIDR,
        "hostnameOverride": node.name,
        "conntrack": {
            "maxPerCore": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"
