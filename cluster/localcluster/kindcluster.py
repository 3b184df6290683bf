"""A cluster by kind, for machines with a Docker engine."""

from pathlib import Path

from localcluster import toolchain
from localcluster.errors import ClusterError
from localcluster.layout import Layout
from localcluster.provider import Status
from localcluster.report import Reporter
from localcluster.shell import run, succeeds, wait_for

STATIC_PODS = ("etcd", "apiserver", "controller-manager", "scheduler")


class KindCluster:
    """The provider `kind`."""

    def __init__(self, layout: Layout, report: Reporter) -> None:
        self._layout = layout
        self._report = report
        self._name = f"orbiter-{layout.id}"
        self._kind = str(layout.bin / "kind")
        self._kubeconfig = ["--kubeconfig", str(layout.kubeconfig)]

    def up(self) -> None:
        """Create the cluster unless it exists; start its node if Docker stopped it."""
        toolchain.provide_kind(self._layout, self._report)
        toolchain.provide_kubectl(self._layout, self._report, None)
        toolchain.provide_helm(self._layout, self._report)
        if self.status().ready:
            self._report.say(f"kind cluster {self._name} is up already")
            return
        if self._exists():
            with self._report.step("starting the kind cluster", "about 20 s"):
                run(["docker", "start", self._node])
                run([self._kind, "export", "kubeconfig", "--name", self._name, *self._kubeconfig])
        else:
            with self._report.step("creating a kind cluster", "1 to 3 min"):
                run([self._kind, "create", "cluster", "--name", self._name,
                     "--wait", "120s", *self._kubeconfig])  # fmt: skip
        with self._report.step("waiting for the node"):
            if not wait_for(lambda: self.status().ready, 120):
                raise ClusterError(f"kind cluster {self._name} is not ready after 120 s")

    def down(self) -> None:
        """Delete the cluster."""
        with self._report.step("deleting the kind cluster"):
            if self._exists():
                run([self._kind, "delete", "cluster", "--name", self._name, *self._kubeconfig])
            self._layout.kubeconfig.unlink(missing_ok=True)

    def status(self) -> Status:
        """Ask the API server for a ready node."""
        condition = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        kubectl = [str(self._layout.bin / "kubectl"), *self._kubeconfig]
        asked = [*kubectl, "get", "nodes", "--request-timeout=5s", "-o", condition]
        ready = succeeds(asked) and run(asked).strip() == "True"
        return Status("kind", ready, self._name if ready else f"{self._name} is not ready")

    def load_image(self, archive: Path) -> None:
        """Load an OCI archive into the node."""
        run([self._kind, "load", "image-archive", str(archive), "--name", self._name])

    def has_image(self, name: str) -> bool:
        """Whether the node's containerd knows the image."""
        listed = run(["docker", "exec", self._node, "ctr", "--namespace", "k8s.io",
                      "images", "ls", "-q", f"name=={name}"])  # fmt: skip
        return name in listed.split()

    def kill(self, component: str) -> None:
        """Kill a static pod's container; the node's kubelet starts a new one by itself."""
        if component not in STATIC_PODS:
            raise ClusterError(f"kind lets only these be killed: {', '.join(STATIC_PODS)}")
        name = component if component == "etcd" else f"kube-{component}"
        script = f"crictl ps --name '^{name}$' -q | xargs crictl stop --timeout 0"
        run(["docker", "exec", self._node, "sh", "-c", script])

    def start(self, component: str) -> None:
        """Wait until the kubelet has brought the component back."""
        with self._report.step(f"waiting for {component}"):
            if not wait_for(lambda: self.status().ready, 120):
                raise ClusterError(f"{component} did not come back within 120 s")

    @property
    def _node(self) -> str:
        return f"{self._name}-control-plane"

    def _exists(self) -> bool:
        return self._name in run([self._kind, "get", "clusters"]).split()
