"""How the server reaches a cluster: by a kubeconfig, or as the pod it runs in.

The client of the cluster is hundreds of modules, so it is loaded by those who connect.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

Kind = Literal["agenttasks", "posessions"]
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


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
