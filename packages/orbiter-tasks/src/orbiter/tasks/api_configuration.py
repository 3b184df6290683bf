"""How a cluster's API server is reached."""

import os
from pathlib import Path

from kubernetes.aio import client, config

from orbiter.tasks.state import TaskError


async def configuration(
    kubeconfig: str | None = None, context: str | None = None, *, in_cluster: bool = False
) -> client.Configuration:
    """Read how to reach a cluster: a kubeconfig where there is one, else what a pod finds.

    Args:
        kubeconfig: The file; by default what kubectl takes.
        context: Its context; by default the current one.
        in_cluster: Look for no kubeconfig.

    Raises:
        TaskError: Neither can be read.
    """
    settings = client.Configuration()
    where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    files = [str(Path(part).expanduser()) for part in where.split(os.pathsep) if part]
    found = kubeconfig or context or any(Path(file).exists() for file in files)
    try:
        if found and not in_cluster:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                os.pathsep.join(files), context, settings, persist_config=False
            )
        else:
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise TaskError(
            f"no cluster is configured: {error}; set KUBECONFIG or give kubeconfig="
        ) from error
    return settings
