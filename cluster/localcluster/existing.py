"""Somebody's own cluster, named by a context; it is used, never brought up or down."""

from pathlib import Path

from localcluster import toolchain
from localcluster.errors import ClusterError
from localcluster.layout import Layout
from localcluster.provider import Status
from localcluster.report import Reporter
from localcluster.shell import run, succeeds


class ExistingCluster:
    """The provider `current`."""

    def __init__(self, layout: Layout, context: str, report: Reporter) -> None:
        self._layout = layout
        self._context = context
        self._report = report
        self._kubectl = str(layout.bin / "kubectl")

    def up(self) -> None:
        """Copy the one context into a kubeconfig of our own, so no other can be touched."""
        toolchain.provide_kubectl(self._layout, self._report, None)
        toolchain.provide_helm(self._layout, self._report)
        copied = run([self._kubectl, "config", "view", "--raw", "--flatten", "--minify",
                      f"--context={self._context}"])  # fmt: skip
        self._layout.kubeconfig.touch(mode=0o600)
        self._layout.kubeconfig.write_text(copied)
        if not self.status().ready:
            raise ClusterError(f"the cluster of context {self._context} does not answer")
        self._report.say(f"using the cluster of context {self._context}")

    def down(self) -> None:
        """Forget the copy; the cluster itself is not ours."""
        self._layout.kubeconfig.unlink(missing_ok=True)
        self._report.say(f"forgot context {self._context}; its cluster was not touched")

    def status(self) -> Status:
        """Ask its API server."""
        ready = succeeds([self._kubectl, "--kubeconfig", str(self._layout.kubeconfig),
                          "get", "--raw", "/readyz", "--request-timeout=5s"])  # fmt: skip
        answer = "answers" if ready else "does not answer"
        return Status("current", ready, f"the cluster of context {self._context} {answer}")

    def load_image(self, archive: Path) -> None:
        """Images come from a registry there."""
        raise ClusterError(
            f"{archive.name} cannot be loaded into your own cluster: push its image to a registry "
            "the cluster pulls from, and give the chart that name"
        )

    def has_image(self, name: str) -> bool:
        """Images come from a registry there, so none needs to be loaded."""
        return True

    def kill(self, component: str) -> None:
        """Not ours to kill."""
        raise ClusterError(f"{component} of your own cluster is not killed by this tool")

    def start(self, component: str) -> None:
        """Not ours to start."""
        raise ClusterError(f"{component} of your own cluster is not started by this tool")
