"""How the server reaches a cluster: by a kubeconfig, or as the pod it runs in.

The client of the cluster is hundreds of modules, so it is loaded by those who connect.
"""

import asyncio
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orbiter.server._internal.errors import RequestError

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

Kind = Literal["agenttasks", "posessions"]
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_reach(kubeconfig: Path | None) -> bool:
    """Say whether there is a cluster: of a kubeconfig, or the one we are somebody in."""
    return kubeconfig is not None or (
        "KUBERNETES_SERVICE_HOST" in os.environ and (ACCOUNT / "token").exists()
    )


async def connected(kubeconfig: Path | None) -> tuple["ApiServer", str]:
    """Do what `connect` does, and say in a sentence why not.

    Raises:
        RequestError: The extra is missing, or the configuration cannot be read.
    """
    try:
        # hundreds of modules: not on the event loop, and not before somebody asks
        await asyncio.to_thread(importlib.import_module, "orbiter.tasks.api_server")
    except ModuleNotFoundError:
        raise RequestError(
            501, "this needs the extra: pip install 'orbiter-server[kubernetes]'"
        ) from None
    try:
        return await connect(kubeconfig)
    except Exception as error:
        raise RequestError(
            502, f"the cluster cannot be reached: {error}", code="cluster_unreachable"
        ) from error


async def connect(kubeconfig: Path | None) -> tuple["ApiServer", str]:
    """Read the configuration; the first request connects.

    Args:
        kubeconfig: None takes the pod's service account.

    Returns:
        The connection, and the namespace of the kubeconfig's context, or the pod's.

    Raises:
        Exception: The configuration cannot be read.
    """
    from kubernetes.aio import config

    from orbiter.tasks.api_server import ApiServer, configuration

    if kubeconfig is None:
        settings = await configuration(in_cluster=True)
        own = (ACCOUNT / "namespace").read_text().strip()
    else:
        settings = await configuration(str(kubeconfig))
        _, current = config.list_kube_config_contexts(str(kubeconfig))  # type: ignore[no-untyped-call]
        own = current["context"].get("namespace")

    async def known() -> Any:
        return settings

    return ApiServer(known), own or "default"


async def connected_as(kubeconfig: Path | None, token: str) -> "ApiServer":
    """Return a connection to the same API server with somebody else's token, and that alone.

    Args:
        kubeconfig: Where the server is; nothing of who we are there is used.
        token: Theirs.

    Raises:
        RequestError: The configuration cannot be read.
    """
    from kubernetes.aio import client

    from orbiter.tasks.api_server import ApiServer, configuration

    try:
        ours = await configuration(
            None if kubeconfig is None else str(kubeconfig), in_cluster=kubeconfig is None
        )
    except Exception as error:
        raise request_error(error) from error
    # made anew, so that neither certificate nor password nor the refreshing of our token is in it
    theirs = client.Configuration(
        host=ours.host, ssl_ca_cert=ours.ssl_ca_cert, ca_cert_data=ours.ca_cert_data,
        verify_ssl=ours.verify_ssl, tls_server_name=ours.tls_server_name,
        assert_hostname=ours.assert_hostname, proxy=ours.proxy, proxy_headers=ours.proxy_headers,
        api_key={"BearerToken": f"Bearer {token}"},
    )  # fmt: skip

    async def known() -> Any:
        return theirs

    return ApiServer(known)


def request_error(error: Exception) -> RequestError:
    """Return what the API server has refused, in its words, or that it did not answer."""
    words = str(getattr(error, "words", None) or error or type(error).__name__)[:1000]
    status = getattr(error, "status", None)
    name = type(error).__name__
    if status == 401:
        return RequestError(403, f"the API server takes this token no more: {words}")
    if status in (400, 403, 422):
        return RequestError(status, words, code="refused")
    if name in ("ConflictError", "GoneError"):
        return RequestError(409, words, code="conflict")
    return RequestError(502, f"the cluster did not do it: {words}", code="cluster_unreachable")
