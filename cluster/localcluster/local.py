"""The local cluster: a one-node Kubernetes made of processes on this machine.

`up` is a convergence, not a script: it looks at what runs and starts what is missing or outdated,
so running it twice, after a crash of it, or after a crash of any component is all the same.
"""

import shutil
from pathlib import Path

from localcluster import config, host, namespaces, objects, packages, pki, toolchain
from localcluster import node as facts
from localcluster.cgroups import CgroupTree, parse_mounts
from localcluster.components import Component, components
from localcluster.errors import ClusterError
from localcluster.health import is_ready
from localcluster.kube import Kube, admin_kubeconfig
from localcluster.layout import Layout
from localcluster.node import Node
from localcluster.provider import Status
from localcluster.record import Record
from localcluster.report import Reporter
from localcluster.shell import run, succeeds, wait_for
from localcluster.supervise import HOLDER, Supervisor

CORE = ("etcd", "containerd", "apiserver")
READY_SECONDS = 90.0


class LocalCluster:
    """The provider `local`."""

    def __init__(self, layout: Layout, record: Record, report: Reporter) -> None:
        self._layout = layout
        self._record = record
        self._report = report
        self._node = Node(
            id=layout.id,
            link=record.link,
            pki=layout.pki,
            config=layout.config,
            etcd=layout.data / "etcd",
            volumes=layout.data / "volumes",
            cni_plugins=layout.cni,
            nameservers=record.nameservers,
        )
        self._tree = CgroupTree(
            self._node.cgroup, parse_mounts(Path("/proc/self/mountinfo").read_text())
        )
        self._supervisor = Supervisor(layout, self._tree)
        containerd = shutil.which("containerd") or "/usr/bin/containerd"
        programs = layout.build / "programs"
        self._components = {c.name: c for c in components(self._node, programs, containerd)}

    def up(self) -> None:
        """Bring up what is missing."""
        self._provide_tools()
        self._write_config()
        outdated = [c for c in self._components.values() if not self._supervisor.is_current(c)]
        inside = self._inside()
        if inside is None:
            with self._report.step("starting the node"):
                inside = self._fresh_namespaces()
            outdated = list(self._components.values())
        elif self.status().ready and not outdated:
            self._set_egress(inside)
            self._report.say("the local cluster is up already")
            return
        if outdated:
            names = ", ".join(component.name for component in outdated)
            with self._report.step(f"starting {names}", "about 8 s"):
                self._set_egress(inside)
                self._start([c for c in outdated if c.name in CORE], inside)
                for name in CORE:  # one that ran already may be of an `up` that was cut short
                    self._await_ready(name)
                self._load_pause_image()
                self._await_namespace(objects.NAMESPACE)
                self._apply_basics()
                self._start([c for c in outdated if c.name not in CORE], inside)
        with self._report.step("waiting for the node", "a few seconds"):
            self._await_node()
        self._report.say(f"the local cluster is up: {self.status().detail}")

    def down(self) -> None:
        """Kill every process of the cluster and remove what it left."""
        with self._report.step("stopping the local cluster"):
            self._tree.kill_everyone()
            self._tree.remove()
            host.remove_link(self._node)
            host.close_egress(self._node)
        with self._report.step("removing its data"):
            self._layout.kubeconfig.unlink(missing_ok=True)
            if self._layout.data.exists():
                shutil.rmtree(self._layout.data)
            host.unregister(self._layout)

    def status(self) -> Status:
        """Look at every component, the API server and the node."""
        pids = {name: self._supervisor.pids(name) for name in self._components}
        dead = [name for name, found in pids.items() if not found]
        if len(dead) == len(pids):
            return Status("local", False, "not running; start it with `make cluster-up`", pids)
        if dead:
            hint = f"{', '.join(dead)} not running; `make cluster-up` starts what is missing"
            return Status("local", False, hint, pids)
        if self._kube().get("/readyz") is None:
            return Status("local", False, "the API server is not ready", pids)
        if not self._node_is_ready():
            return Status("local", False, "the node is not ready", pids)
        return Status(
            "local", True, f"Kubernetes v{facts.KUBERNETES_VERSION}, node {self._node.ip}", pids
        )

    def load_image(self, archive: Path) -> None:
        """Import an OCI archive into the node's containerd."""
        run([*self._ctr(), "images", "import", str(archive.resolve())])

    def has_image(self, name: str) -> bool:
        """Whether containerd knows the image under exactly this name."""
        return name in run([*self._ctr(), "images", "ls", "-q", f"name=={name}"]).split()

    def kill(self, component: str) -> None:
        """SIGKILL one component."""
        self._supervisor.kill(self._component(component).name)

    def start(self, component: str) -> None:
        """Start one component if it is dead, and wait until it is ready."""
        found = self._component(component)
        inside = self._inside()
        if inside is None:
            raise ClusterError("the local cluster is not running; start it with `make cluster-up`")
        if not self._supervisor.pids(component):
            self._start([found], inside)
        else:
            self._await_ready(component)

    def _provide_tools(self) -> None:
        packages.ensure(packages.missing_packages(), self._report)
        toolchain.build_node(self._layout, self._report)
        toolchain.build_cni(self._layout, self._report)
        installed = packages.cni_plugins() or packages.CNI_DIRECTORIES[-1]
        toolchain.add_plugins(self._layout, installed, packages.CNI_PLUGINS)
        toolchain.build_pause_image(self._layout, self._report)
        toolchain.provide_kubectl(self._layout, self._report, facts.KUBERNETES_MINOR)
        toolchain.provide_helm(self._layout, self._report)

    def _write_config(self) -> None:
        pki.ensure(self._node)
        for name, content in config.render(self._node).items():
            path = self._layout.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != content:
                path.write_text(content)
        kubeconfig = admin_kubeconfig(self._node, f"orbiter-{self._layout.id}")
        self._layout.kubeconfig.touch(mode=0o600)
        self._layout.kubeconfig.write_text(kubeconfig)

    def _inside(self) -> int | None:
        furnished = (self._layout.started / HOLDER).exists()
        return self._supervisor.inside(self._components) if furnished else None

    def _fresh_namespaces(self) -> int:
        self._tree.kill_everyone()
        self._tree.remove()  # the kubelet would search dead pods' cgroups for their containers
        shutil.rmtree(self._layout.started, ignore_errors=True)
        for path in facts.RUNTIME_DIRECTORIES:
            shutil.rmtree(self._layout.node_path(path), ignore_errors=True)
        self._tree.create()
        host.register(self._layout)
        holder = self._supervisor.hold_namespaces()
        namespaces.set_up(self._node, self._layout, holder)
        self._layout.started.mkdir(parents=True)
        (self._layout.started / HOLDER).touch()
        return holder

    def _set_egress(self, inside: int) -> None:
        namespaces.set_routes(self._node, inside, egress=self._record.egress)
        if self._record.egress:
            host.open_egress(self._node)
        else:
            host.close_egress(self._node)

    def _start(self, wanted: list[Component], inside: int) -> None:
        for component in wanted:
            self._supervisor.start(component, inside)
        for component in wanted:
            self._await_ready(component.name)

    def _await_ready(self, name: str) -> None:
        self._supervisor.await_ready(name, lambda: self._is_ready(name), READY_SECONDS)

    def _is_ready(self, name: str) -> bool:
        if name == "containerd":
            return succeeds([*self._ctr(), "version"])
        return is_ready(name, self._node)

    def _load_pause_image(self) -> None:
        if not self.has_image(facts.PAUSE_IMAGE):
            self.load_image(self._layout.build / "pause.tar")

    def _apply_basics(self) -> None:
        for path, manifest in objects.basics(self._node):
            self._kube().apply(path, manifest)

    def _await_namespace(self, name: str) -> None:
        # The API server makes its own namespaces a moment after it says that it is ready.
        path = f"/api/v1/namespaces/{name}"
        if not wait_for(lambda: self._kube().get(path) is not None, READY_SECONDS):
            end = self._supervisor.log_end("apiserver")
            raise ClusterError(f"no namespace {name}; the API server's log ends:\n{end}")

    def _await_node(self) -> None:
        if not wait_for(self._node_is_ready, READY_SECONDS):
            end = self._supervisor.log_end("kubelet")
            raise ClusterError(f"the node does not become ready; kubelet's log ends:\n{end}")
        # Pods are refused until their namespace has its service account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        if not wait_for(lambda: self._kube().get(account) is not None, READY_SECONDS):
            end = self._supervisor.log_end("controller-manager")
            raise ClusterError(f"no default service account; the log ends:\n{end}")

    def _node_is_ready(self) -> bool:
        node = self._kube().get(f"/api/v1/nodes/{facts.NODE_NAME}")
        conditions = node["status"].get("conditions", []) if node else []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _kube(self) -> Kube:
        return Kube(self._node)

    def _component(self, name: str) -> Component:
        if name not in self._components:
            raise ClusterError(f"no component {name!r}; there are: {', '.join(self._components)}")
        return self._components[name]

    def _ctr(self) -> list[str]:
        inside = self._inside()
        if inside is None:
            raise ClusterError("the local cluster is not running; start it with `make cluster-up`")
        address = ["--address", facts.CONTAINERD_SOCKET]
        return [*namespaces.enter(inside), "ctr", *address, "--namespace", "k8s.io"]
