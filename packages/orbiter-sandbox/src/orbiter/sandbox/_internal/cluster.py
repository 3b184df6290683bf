"""What a KubernetesSandbox asks of the API server; `kubernetes` is imported here, when needed."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from orbiter.sandbox._internal.output import Kept
from orbiter.sandbox._internal.pod import CONTAINER
from orbiter.sandbox.types import SandboxUnavailableError

_PAUSE = 0.1
_CHUNK = 65536
_IN, _OUT, _ERR, _STATUS = 0, 1, 2, 3
_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_HOPELESS = ("InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull")


class Cluster:
    """A connection to one API server.

    Attributes:
        namespace: Where the kubeconfig or the pod's account says to work.
    """

    def __init__(self, library: Any, plain: Any, streaming: Any, namespace: str) -> None:
        self.namespace = namespace
        self._refusal = library.client.ApiException
        self._clients = (plain, streaming)
        self._core = library.client.CoreV1Api(plain)
        self._network = library.client.NetworkingV1Api(plain)
        self._exec = library.client.CoreV1Api(streaming)

    @classmethod
    async def connect(cls, kubeconfig: Path | None, context: str | None) -> Cluster:
        """Read the configuration: the file given, KUBECONFIG, ~/.kube/config, or a pod's own.

        Raises:
            SandboxUnavailableError: There is none, or the extra is not installed.
        """
        try:
            # in a thread, because it takes a second
            library = await asyncio.to_thread(_library)
        except ImportError as error:
            raise SandboxUnavailableError(
                "KubernetesSandbox needs the extra: pip install 'orbiter-sandbox[kubernetes]'"
            ) from error
        settings = library.client.Configuration()
        try:
            namespace = await _load(library.config, settings, kubeconfig, context)
        except library.config.ConfigException as error:
            raise SandboxUnavailableError(
                f"no Kubernetes cluster is configured: {error}; give `kubeconfig` or set KUBECONFIG"
            ) from error
        plain = library.client.ApiClient(settings)
        return cls(library, plain, library.stream.WsApiClient(settings), namespace)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.close()

    async def create_pod(self, body: dict[str, Any]) -> str:
        """Create a pod; returns its uid.

        Raises:
            SandboxUnavailableError: The cluster refused it.
        """
        try:
            made = await self._core.create_namespaced_pod(self.namespace, body)
        except Exception as error:
            raise self.refused("the pod", error) from error
        return str(made.metadata.uid)

    async def create_policy(self, body: dict[str, Any]) -> None:
        """Create a network policy.

        Raises:
            SandboxUnavailableError: The cluster refused it.
        """
        try:
            await self._network.create_namespaced_network_policy(self.namespace, body)
        except Exception as error:
            raise self.refused("the network policy", error) from error

    def refused(self, what: str, error: Exception) -> SandboxUnavailableError:
        """Say in the API server's words why it did not do something."""
        said = str(error)
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            said = json.loads(error.body)["message"]  # type: ignore[attr-defined]
        return SandboxUnavailableError(
            f"the cluster did not take {what} of a sandbox in namespace '{self.namespace}': {said}"
        )

    async def container(self, name: str) -> Any:
        """Return the status of a sandbox's container, None before there is one or without a pod."""
        try:
            found = await self._core.read_namespaced_pod(name, self.namespace)
        except self._refusal as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        statuses = found.status.container_statuses or []
        return statuses[0] if statuses and found.status.phase in ("Pending", "Running") else None

    async def wait_until_running(self, name: str, timeout: float) -> None:
        """Wait for a pod's container.

        Raises:
            SandboxUnavailableError: It does not run in time, or never will.
        """
        why = "it was not scheduled"
        try:
            async with asyncio.timeout(timeout):
                while True:
                    status = await self.container(name)
                    if status is not None and status.state.running is not None:
                        return
                    if status is not None and status.state.waiting is not None:
                        waiting = status.state.waiting
                        why = f"{waiting.reason}: {waiting.message or status.image}"
                        if waiting.reason in _HOPELESS:
                            break
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            why = f"after {timeout:g} s: {why}"
        raise SandboxUnavailableError(
            f"pod '{name}' in namespace '{self.namespace}' does not run: {why}"
        )

    async def delete_pod(self, name: str, *, policy: bool) -> None:
        """Delete a pod, at once, and its policy; no error when they are gone already.

        Args:
            name: Of both.
            policy: Whether there may be one.
        """
        try:
            await self._core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)
        except self._refusal as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        if policy:
            # the cluster removes it with the pod, but takes its time
            with suppress(self._refusal):
                await self._network.delete_namespaced_network_policy(name, self.namespace)

    async def execute(
        self, name: str, command: Sequence[str], stdin: bytes, out: Kept, err: Kept
    ) -> int | None:
        """Run a command in a pod.

        Returns:
            Its exit code, or None when the connection or the container ended before it.
        """
        opening = await self._exec.connect_get_namespaced_pod_exec_without_preload_content(
            name,
            self.namespace,
            command=list(command),
            container=CONTAINER,
            stdin=bool(stdin),
            stdout=True,
            stderr=True,
            tty=False,
        )
        async with opening as socket:
            sending = asyncio.create_task(_send(socket, stdin))
            try:
                async for message in socket:
                    channel, data = message.data[0], message.data[1:]
                    if channel == _OUT:
                        out.add(data)
                    elif channel == _ERR:
                        err.add(data)
                    elif channel == _STATUS:
                        return _exit_code(json.loads(data))
            finally:
                sending.cancel()
                await asyncio.wait([sending])
        return None


def _library() -> Any:
    for part in ("client", "config", "stream"):
        importlib.import_module(f"kubernetes.aio.{part}")
    return importlib.import_module("kubernetes.aio")


async def _load(config: Any, settings: Any, kubeconfig: Path | None, context: str | None) -> str:
    """Fill in the settings; returns the namespace to work in."""
    file = None if kubeconfig is None else str(kubeconfig)
    try:
        await config.load_kube_config(file, context, client_configuration=settings)
    except config.ConfigException:
        if kubeconfig is not None or not _ACCOUNT_NAMESPACE.exists():
            raise
        config.load_incluster_config(client_configuration=settings)
        return _ACCOUNT_NAMESPACE.read_text().strip()
    contexts, active = config.list_kube_config_contexts(file)
    chosen = next((one for one in contexts if one["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")


async def _send(socket: Any, data: bytes) -> None:
    with suppress(ConnectionError):
        for start in range(0, len(data), _CHUNK):
            await socket.send_bytes(bytes([_IN]) + data[start : start + _CHUNK])


def _exit_code(status: dict[str, Any]) -> int | None:
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes", []):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    return None
