"""KubernetesSandbox: a pod of its own on a cluster."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbiter.sandbox._internal.cluster import Cluster
from orbiter.sandbox._internal.output import Kept
from orbiter.sandbox._internal.pod import CLEAN, line, no_network, pod
from orbiter.sandbox.sandbox import STOPPED, Outcome, Sandbox
from orbiter.sandbox.types import Limits, SandboxError, SandboxUnavailableError, Stop

DEFAULT_IMAGE = "python:3.13-slim"
_KILLED = 137
# what a command may be late by before the connection is taken for dead
_GRACE_SECONDS = 10.0
_RESTART_SECONDS = 60.0


class KubernetesSandbox(Sandbox):
    """Runs commands in a pod that the Restricted Pod Security Standard admits.

    The pod has no account of the API server, no privileges, a read-only system and no network (by
    a NetworkPolicy: where the cluster's network enforces none, there is a network). Commands run
    one at a time. `limits.processes` is the kubelet's to enforce (podPidsLimit).
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        image: str = DEFAULT_IMAGE,
        pull_policy: str = "IfNotPresent",
        namespace: str | None = None,
        runtime_class: str | None = None,
        cpu: str = "1",
        env: Mapping[str, str] | None = None,
        network: bool = False,
        python: str = "python3",
        lifetime: int = 3600,
        open_timeout: float = 120.0,
        kubeconfig: Path | None = None,
        context: str | None = None,
    ) -> None:
        """Describe the sandbox; nothing happens before `async with`.

        Args:
            limits: How much commands may use.
            image: Needs a shell and coreutils (or busybox), and Python for `run_python`.
            pull_policy: When the node fetches the image, as Kubernetes names it.
            namespace: Where the pod is, by default where the kubeconfig says.
            runtime_class: For example "gvisor", where the cluster has one.
            cpu: What the pod may use, as Kubernetes writes it: "1", "500m".
            env: Variables for the commands; they stand in the pod's definition.
            network: Leaves the pod the network of the cluster.
            python: What `run_python` runs, as found in the image.
            lifetime: Seconds after which the cluster ends the pod whatever becomes of this process.
            open_timeout: Seconds until the pod has to run.
            kubeconfig: By default KUBECONFIG, ~/.kube/config, or the account of the pod we run in.
            context: Which of its contexts, by default the current one.
        """
        super().__init__(limits, python=python)
        self.name = f"orbiter-sandbox-{secrets.token_hex(5)}"
        self._body = pod(
            self.name,
            image=image,
            pull_policy=pull_policy,
            env=dict(env or {}),
            limits=self.limits,
            cpu=cpu,
            runtime_class=runtime_class,
            lifetime=lifetime,
        )
        self._namespace = namespace
        self._has_network = network
        self._open_timeout = open_timeout
        self._place = (kubeconfig, context)
        self._cluster: Cluster | None = None
        self._one_at_a_time = asyncio.Lock()

    async def _open(self) -> None:
        cluster = self._cluster = await Cluster.connect(*self._place)
        cluster.namespace = self._namespace or cluster.namespace
        try:
            uid = await cluster.create_pod(self._body)
            if not self._has_network:
                await cluster.create_policy(no_network(self.name, uid))
            await cluster.wait_until_running(self.name, self._open_timeout)
        except BaseException:
            await self._close()
            raise

    async def _close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            try:
                await cluster.delete_pod(self.name, policy=not self._has_network)
            finally:
                await cluster.close()

    async def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout: float, output_bytes: int
    ) -> Outcome:
        async with self._one_at_a_time:
            cluster = self._cluster
            if cluster is None:
                raise SandboxError("the sandbox is not open; use `async with` around its use")
            out, err = Kept(output_bytes), Kept(output_bytes)
            command = line(argv, len(stdin), timeout, self.limits)
            code: int | None = None
            stopped: Stop | None = None
            began = time.monotonic()
            restarts = await self._restarts(cluster)
            try:
                async with asyncio.timeout(timeout + _GRACE_SECONDS):
                    code = await cluster.execute(self.name, command, stdin, out, err)
            except TimeoutError:
                stopped = "timeout"
                await self._clean(cluster)
            except asyncio.CancelledError:
                await asyncio.shield(self._clean(cluster))
                raise
            except Exception as error:
                raise cluster.refused("a command", error) from error
            if code in (None, _KILLED) and stopped is None:
                late = time.monotonic() - began >= timeout
                stopped = "timeout" if late else await self._out_of_memory(cluster, restarts)
                if stopped != "memory":
                    # whoever kills the shell around it may also outlive it
                    await self._clean(cluster)
                if code is None and stopped is None:
                    raise SandboxError(f"the connection to pod '{self.name}' ended too early")
        code = STOPPED if stopped or code is None else code
        return Outcome(code, out.content(), err.content(), out.truncated or err.truncated, stopped)

    async def _restarts(self, cluster: Cluster) -> int:
        status = await cluster.container(self.name)
        if status is None:
            raise SandboxError(
                f"pod '{self.name}' is gone: its lifetime is over, or it used more disk than "
                f"{self.limits.disk_bytes} bytes (limits.disk_bytes)"
            )
        return int(status.restart_count)

    async def _out_of_memory(self, cluster: Cluster, restarts: int) -> Stop | None:
        """Tell whether the container was ended for its memory; if so, wait until it is back."""
        status = await cluster.container(self.name)
        if status is None:
            return None
        if status.restart_count == restarts and status.state.running is not None:
            return None
        await cluster.wait_until_running(self.name, _RESTART_SECONDS)
        return "memory"

    async def _clean(self, cluster: Cluster) -> None:
        """End what runs in the pod; a pod in which that cannot be done is deleted."""
        nothing = Kept(0)
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                await cluster.execute(self.name, CLEAN, b"", nothing, nothing)
        except Exception as error:
            await cluster.delete_pod(self.name, policy=not self._has_network)
            raise SandboxUnavailableError(
                f"pod '{self.name}' did not answer and was deleted: {error}"
            ) from error
