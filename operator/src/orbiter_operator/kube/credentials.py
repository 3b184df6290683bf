"""How to reach the API server: the pod's service account, or the current kubeconfig context.

kopf reads both kinds; using its readers means that the watch it runs and the client in `client`
talk to the same server as the same user.
"""

import os
import ssl
import time
from collections.abc import Callable

import kopf

_REFRESH_SECONDS = 60.0


class Credentials:
    """The server's address and the headers that authenticate a request.

    Args:
        load: Reads the connection anew; called again now and then because tokens rotate.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        load: Callable[[], kopf.ConnectionInfo],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._clock = clock
        self._info = load()
        self._read_at = clock()

    @property
    def server(self) -> str:
        """URL of the API server, without a slash at its end."""
        return self._info.server.rstrip("/")

    def tls(self) -> ssl.SSLContext | bool:
        """The TLS context for connections to it."""
        return self._info.as_ssl_context() if self.server.startswith("https") else False

    def headers(self) -> dict[str, str]:
        """Headers for one request, with a token that is at most a minute old."""
        if self._clock() - self._read_at > _REFRESH_SECONDS:
            self._info = self._load()
            self._read_at = self._clock()
        return self._info.as_http_headers()


def load_connection() -> kopf.ConnectionInfo:
    """Read the service account or else the kubeconfig.

    Raises:
        kopf.LoginError: There is neither, or it cannot be used.
    """
    settings = kopf.OperatorSettings()
    found = kopf.login_with_service_account(settings=settings)
    try:
        found = found or kopf.login_with_kubeconfig(settings=settings)
    except (OSError, KeyError, ValueError) as error:
        where = os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise kopf.LoginError(
            f"kubeconfig {where} is of no use ({error!r}); set KUBECONFIG to one whose current "
            "context has a token or a client certificate"
        ) from None
    if found is None:
        raise kopf.LoginError(
            "no way to the API server: neither a service account nor a kubeconfig; "
            "set KUBECONFIG to the path of one"
        )
    return found
