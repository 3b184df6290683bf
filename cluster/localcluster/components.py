"""Which programs make the cluster, and with which arguments. Pure."""

from dataclasses import dataclass
from pathlib import Path

from localcluster import node as facts
from localcluster.node import Node

ETCD = "http://127.0.0.1:2379"
ON_EVERY_NODE = ("containerd", "kubelet", "proxy", "policies")


@dataclass(frozen=True)
class Component:
    """One program.

    Attributes:
        name: Its name for people.
        argv: The program and its arguments.
        files: Those whose change restarts it.
        again: Whether it begins again when it ends. Kubernetes' controllers end themselves when
            they can no longer trust what they know (a scheduler that missed a pod's deletion while
            the API server was away), and count on whoever has started them.
    """

    name: str
    argv: tuple[str, ...]
    files: tuple[str, ...] = ()
    again: bool = False


def components(node: Node, programs: Path, containerd: str) -> tuple[Component, ...]:
    """All components of a node in the order they start.

    Args:
        node: the node's facts.
        programs: directory in which the multi-call binary goes by its many names.
        containerd: path of the containerd binary.
    """
    pki, config = node.pki, node.config

    def client(name: str) -> str:
        return f"--kubeconfig={config / name}.kubeconfig"

    etcd = Component(
        "etcd",
        (
            str(programs / "etcd"),
            f"--data-dir={node.etcd}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            # What the page cache holds survives a crash of etcd; only one of the machine needs
            # fsync, and a test cluster may lose its last second then.
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ),
    )
    runtime = Component(
        "containerd",
        (containerd, "--config", str(config / "containerd.toml")),
        ("containerd.toml", "cni/10-orbiter.conflist"),
    )
    apiserver = Component(
        "apiserver",
        (
            str(programs / "kube-apiserver"),
            f"--etcd-servers={ETCD}",
            "--secure-port=6443",
            f"--bind-address={node.ip}",
            f"--advertise-address={node.ip}",
            f"--tls-cert-file={pki}/apiserver-{node.link}.crt",
            f"--tls-private-key-file={pki}/apiserver-{node.link}.key",
            f"--client-ca-file={pki}/ca.crt",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={facts.SERVICE_CIDR}",
            f"--authentication-config={config / 'authentication.yaml'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
            f"--kubelet-client-key={pki}/apiserver-kubelet.key",
            # The node's name resolves nowhere.
            "--kubelet-preferred-address-types=InternalIP",
        ),
    )
    controller_manager = Component(
        "controller-manager",
        (
            str(programs / "kube-controller-manager"),
            client("controller-manager"),
            f"--bind-address={node.ip}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            # The client default of 20 requests/s caps a burst at 8.5 pods/s, whoever creates them.
            "--kube-api-qps=300",
            "--kube-api-burst=600",
            "--flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins",
            # The default of 50 s is for nodes that come and go with a network.
            "--node-monitor-grace-period=20s",
        ),
        again=True,
    )
    scheduler = Component(
        "scheduler",
        (
            str(programs / "kube-scheduler"),
            client("scheduler"),
            f"--bind-address={node.ip}",
            "--leader-elect=false",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        ),
        again=True,
    )
    kubelet = Component(
        "kubelet",
        (
            str(programs / "kubelet"),
            client("kubelet"),
            f"--config={config}/kubelet.yaml",
            f"--hostname-override={node.name}",
            f"--node-ip={node.ip}",
        ),
        ("kubelet.yaml",),
    )
    proxy = Component(
        "proxy", (str(programs / "kube-proxy"), f"--config={config}/proxy.yaml"), ("proxy.yaml",)
    )
    policies = Component(
        "policies",
        (
            str(programs / "network-policies"),
            f"-kubeconfig={config}/policies.kubeconfig",
            f"-listen={node.ip}:{facts.POLICIES_PORT}",
        ),
    )
    volumes = Component(
        "volumes",
        (
            str(programs / "volume-provisioner"),
            f"-kubeconfig={config}/volumes.kubeconfig",
            f"-directory={node.volumes}",
        ),
    )
    everything = (
        etcd,
        runtime,
        apiserver,
        controller_manager,
        scheduler,
        kubelet,
        proxy,
        policies,
        volumes,
    )
    return tuple(one for one in everything if node.is_first or one.name in ON_EVERY_NODE)
