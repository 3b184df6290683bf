"""A very small Kubernetes client: enough to see that a cluster is ready and to give it basics."""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localcluster.config import kubeconfig
from localcluster.errors import ClusterError
from localcluster.node import Node

TIMEOUT_SECONDS = 10.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


API_PORT = 6443
KUBELET_PORT = 10250


class Kube:
    """Talks to a local cluster's API server, or its kubelet, as the administrator."""

    def __init__(self, node: Node, port: int = API_PORT) -> None:
        self._address = (node.ip if port == KUBELET_PORT else node.api_ip, port)
        self._tls = ssl.create_default_context(cafile=str(node.pki / "ca.crt"))
        self._tls.load_cert_chain(node.pki / "admin.crt", node.pki / "admin.key")

    def get(self, path: str) -> Any | None:
        """The decoded answer, or None when the server is away or says anything but 200."""
        try:
            status, body = self._request("GET", path)
        except OSError:
            return None
        if status != 200:
            return None
        return json.loads(body) if body[:1] in (b"{", b"[") else body.decode()

    def apply(self, path: str, manifest: Mapping[str, Any]) -> None:
        """Server-side apply one object at its path.

        Raises:
            ClusterError: the server refused it.
        """
        for pause in (*_PAUSES, None):
            status, body = self._request(
                "PATCH",
                f"{path}?fieldManager=orbiter-cluster&force=true",
                json.dumps(manifest),
                {"Content-Type": "application/apply-patch+yaml"},
            )
            # The request of an `up` that was killed meanwhile may still hold a Service's address.
            if pause is None or status != 422 or b"already allocated" not in body:
                break
            time.sleep(pause)
        if status not in (200, 201):
            raise ClusterError(f"the API server answered {status} to {path}: {body.decode()}")

    def delete(self, path: str) -> None:
        """Delete one object at once; harmless when it is gone.

        Raises:
            ClusterError: the server refused it.
        """
        status, body = self._request("DELETE", f"{path}?gracePeriodSeconds=0")
        if status not in (200, 202, 404):
            raise ClusterError(f"the API server answered {status} to {path}: {body.decode()}")

    def _request(
        self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(
            *self._address, timeout=TIMEOUT_SECONDS, context=self._tls
        )
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()


def admin_kubeconfig(node: Node, name: str) -> str:
    """A self-contained kubeconfig for people, as JSON (which is YAML)."""

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    user = {
        "client-certificate-data": data(node.pki / "admin.crt"),
        "client-key-data": data(node.pki / "admin.key"),
    }
    authority = data(node.pki / "ca.crt")
    return json.dumps(kubeconfig(f"https://{node.ip}:{API_PORT}", authority, user, name), indent=1)
