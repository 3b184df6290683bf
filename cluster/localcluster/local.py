"""The local cluster: a Kubernetes made of processes on this machine, with one node or a few.

`up` is a convergence, not a script: it looks at what runs and starts what is missing or outdated,
so running it twice, after a crash of it, or after a crash of any component is all the same.
"""

from pathlib import Path

from localcluster import dns, host, namespaces, objects, packages, toolchain
from localcluster import node as facts
from localcluster.components import Component
from localcluster.errors import ClusterError
from localcluster.kube import Kube, admin_kubeconfig
from localcluster.layout import Layout
from localcluster.localnode import READY_SECONDS, LocalNode
from localcluster.node import Node
from localcluster.provider import Status
from localcluster.record import Record
from localcluster.report import Reporter
from localcluster.shell import wait_for

CORE = ("etcd", "containerd", "apiserver")


class LocalCluster:
    """The provider `local`."""

    def __init__(self, layout: Layout, record: Record, report: Reporter) -> None:
        self._layout = layout
        self._record = record
        self._report = report
        self._nodes = [self._node(number) for number, _ in enumerate(record.links, start=1)]
        self._first = self._nodes[0]

    def up(self) -> None:
        """Bring up what is missing, and take away the nodes that are too many."""
        self._provide_tools()
        self._write_config()
        self._remove_surplus()
        lost = [node for node in self._nodes if node.inside() is None]
        if not lost and not self._outdated() and self.status().ready:
            self._set_egress()
            self._report.say("the local cluster is up already")
            return
        if lost:
            named = "node" if self._first in lost else ", ".join(n.node.name for n in lost)
            with self._report.step(f"starting the {named}"):
                for node in self._nodes:  # the others live below the first, and die with it
                    self._furnish(node)
        self._wire(lost)
        if outdated := self._outdated():
            with self._report.step(f"starting {', '.join(outdated)}", "about 8 s"):
                for node in self._nodes:
                    self._bring_up(node, node.outdated())
        with self._report.step("waiting for the node", "a few seconds"):
            self._await_nodes()
        self._report.say(f"the local cluster is up: {self.status().detail}")

    def down(self) -> None:
        """Kill every process of the cluster and remove what it left."""
        surplus = self._surplus()
        with self._report.step("stopping the local cluster"):
            for node in (*surplus, *reversed(self._nodes)):
                node.remove()
            host.close_egress(self._layout)
        self._layout.kubeconfig.unlink(missing_ok=True)
        host.unregister(self._layout)

    def status(self) -> Status:
        """Look at every component, the API server and the nodes."""
        pids = {name: node.pids(one.name) for name, (node, one) in self._components().items()}
        dead = [name for name, found in pids.items() if not found]
        if len(dead) == len(pids):
            return Status("local", False, "not running; start it with `make cluster-up`", pids)
        if dead:
            hint = f"{', '.join(dead)} not running; `make cluster-up` starts what is missing"
            return Status("local", False, hint, pids)
        if self._kube().get("/readyz") is None:
            return Status("local", False, "the API server is not ready", pids)
        for node in self._nodes:
            if not node.is_ready():
                return Status("local", False, f"the node {node.node.name} is not ready", pids)
        listed = ", ".join(node.node.ip for node in self._nodes)
        noun = "node" if len(self._nodes) == 1 else "nodes"
        detail = f"Kubernetes v{facts.KUBERNETES_VERSION}, {noun} {listed}"
        return Status("local", True, detail, pids)

    def load_image(self, archive: Path) -> None:
        """Import an OCI archive into every node's containerd."""
        for node in self._nodes:
            node.load_image(archive)

    def has_image(self, name: str) -> bool:
        """Whether every containerd knows the image under exactly this name."""
        return all(node.has_image(name) for node in self._nodes)

    def kill(self, component: str) -> None:
        """SIGKILL one component, or with its name everything of a further node."""
        if node := self._further(component):
            node.lose()
        else:
            node, found = self._component(component)
            node.kill(found.name)

    def start(self, component: str) -> None:
        """Start one component, or a lost node, if it is dead, and wait until it is ready."""
        self._first.entrance()
        if node := self._further(component):
            if node.inside() is None:
                node.furnish()
            self._wire([node])
            self._bring_up(node, node.outdated())
            self._await_nodes()
            return
        node, found = self._component(component)
        if node.pids(found.name):
            node.await_ready(found.name)
        else:
            node.start([found])

    def _node(self, number: int) -> LocalNode:
        layout = self._layout.of_node(number)
        return LocalNode(
            layout,
            Node(
                id=layout.id,
                links=self._record.links,
                pki=layout.pki,
                config=layout.config,
                etcd=layout.data / "etcd",
                volumes=layout.data / "volumes",
                cni_plugins=layout.cni,
                nameservers=self._record.nameservers,
                number=number,
            ),
        )

    def _components(self) -> dict[str, tuple[LocalNode, Component]]:
        return {
            node.node.prefix + name: (node, one)
            for node in self._nodes
            for name, one in node.components.items()
        }

    def _component(self, name: str) -> tuple[LocalNode, Component]:
        found = self._components()
        if name not in found:
            raise ClusterError(f"no component {name!r}; there are: {', '.join(found)}")
        return found[name]

    def _further(self, name: str) -> LocalNode | None:
        return next((n for n in self._nodes[1:] if n.node.prefix == f"{name}/"), None)

    def _outdated(self) -> list[str]:
        return [n.node.prefix + one.name for n in self._nodes for one in n.outdated()]

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
        for node in self._nodes:
            node.write_config()
        kubeconfig = admin_kubeconfig(self._first.node, f"orbiter-{self._layout.id}")
        self._layout.kubeconfig.touch(mode=0o600)
        self._layout.kubeconfig.write_text(kubeconfig)

    def _surplus(self) -> list[LocalNode]:
        numbers = range(len(self._nodes) + 1, facts.MAX_NODES + 1)
        return [self._node(n) for n in numbers if self._layout.of_node(n).home.exists()]

    def _remove_surplus(self) -> None:
        for node in self._surplus():
            name = node.node.name
            with self._report.step(f"taking away the node {name}"):
                node.lose()
                # Nobody is left to end them, and who owns them would wait for that.
                where = f"/api/v1/pods?fieldSelector=spec.nodeName={name}"
                for pod in (self._kube().get(where) or {}).get("items") or ():
                    meta = pod["metadata"]
                    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    self._kube().delete(path)
                if self._kube().get("/readyz") is not None:
                    self._kube().delete(f"/api/v1/nodes/{name}")
                node.remove()

    def _furnish(self, node: LocalNode) -> None:
        if node.inside() is None:
            node.furnish()

    def _wire(self, fresh: list[LocalNode]) -> None:
        first = self._first.entrance()
        for node in self._nodes[1:]:
            linked = namespaces.are_connected(node.node, first)
            if node in fresh or self._first in fresh or not linked:
                namespaces.connect(self._first.node, first, node.node, node.entrance())
        self._set_egress()

    def _bring_up(self, node: LocalNode, outdated: list[Component]) -> None:
        node.start(one for one in outdated if one.name in CORE)
        for name in CORE:  # one that ran already may be of an `up` that was cut short
            if name in node.components:
                node.await_ready(name)
        if not node.has_image(facts.PAUSE_IMAGE):
            node.load_image(self._layout.build / "pause.tar")
        if node is self._first:
            self._await(f"/api/v1/namespaces/{dns.NAMESPACE}", "apiserver")
            program = str((self._layout.build / "programs" / "coredns").resolve())
            libraries = [path for path in dns.LIBRARIES if Path(path).is_dir()]
            coredns = dns.deployment(node.node, program, libraries)
            for path, manifest in objects.basics(coredns):
                self._kube().apply(path, manifest)
        else:
            self._copy_images(node)
        node.start(one for one in outdated if one.name not in CORE)

    def _copy_images(self, node: LocalNode) -> None:
        known = node.images().items()
        ours = self._first.images().items()
        if missing := [name for name, digest in ours if (name, digest) not in known]:
            archive = self._layout.data / "images.tar"
            self._first.save_images(archive, missing)
            node.load_image(archive)
            archive.unlink()

    def _set_egress(self) -> None:
        for node in self._nodes:
            namespaces.set_routes(node.node, node.entrance(), egress=self._record.egress)
        if self._record.egress:
            host.open_egress(self._layout, [node.node for node in self._nodes])
        else:
            host.close_egress(self._layout)

    def _await(self, path: str, made_by: str) -> None:
        # The API server makes its own namespaces a moment after it says that it is ready.
        if not wait_for(lambda: self._kube().get(path) is not None, READY_SECONDS):
            end = self._first.log_end(made_by)
            raise ClusterError(f"no {path}; the log of {made_by} ends:\n{end}")

    def _await_nodes(self) -> None:
        for node in self._nodes:
            if not wait_for(node.is_ready, READY_SECONDS):
                end = node.log_end("kubelet")
                name = node.node.name
                raise ClusterError(f"{name} does not become ready; kubelet's log ends:\n{end}")
        if not wait_for(lambda: dns.is_ready(self._kube().get(dns.PATH)), READY_SECONDS):
            end = self._first.log_end("kubelet")
            raise ClusterError(f"{dns.PATH} does not become ready; kubelet's log ends:\n{end}")
        # Pods are refused until their namespace has its service account.
        self._await("/api/v1/namespaces/default/serviceaccounts/default", "controller-manager")

    def _kube(self) -> Kube:
        return Kube(self._first.node)
