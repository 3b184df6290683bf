"""The store of artifacts from a terminal: with the credentials in the namespace's Secret.

Whoever may read that Secret may read the store with it; nobody gets more here. The keys stay in
this process.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.redis_forward import IN_CLUSTER, forwarded
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter_contracts.object_store import SECRET_KEYS, StoreAddress, endpoint_problem

if TYPE_CHECKING:
    from obstore.store import S3Store

_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_CONNECT: Final = timedelta(seconds=5)
_REQUEST: Final = timedelta(seconds=60)


class Store:
    """A store that is open while a command runs.

    Args:
        kubectl: The cluster, in whose namespace the Secret is.
        address: Where the store is.
        secret: The Secret's name.
        endpoint: Where it is from here, if that is somewhere else.
    """

    def __init__(
        self, kubectl: Kubectl, address: StoreAddress, secret: str, endpoint: str | None
    ) -> None:
        if endpoint is not None and (problem := endpoint_problem(endpoint)):
            raise CommandError(f"--endpoint {endpoint!r} {problem}", ExitCode.USAGE)
        self._kubectl = kubectl
        self._address = address
        self._secret = secret
        self._endpoint = endpoint
        self._open = ExitStack()
        self._client: S3Store | None = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def read(self, key: str) -> Iterator[bytes]:
        """Read an object.

        Raises:
            CommandError: It cannot be had, and why.
        """
        import obstore
        from obstore.exceptions import BaseError

        try:
            yield from map(bytes, obstore.get(self._opened(), key).stream())
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise self._refused(f"give {key}", error) from None

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """The names of the objects that begin so, in their order, each with its size.

        Raises:
            CommandError: They cannot be had, and why.
        """
        import obstore
        from obstore.exceptions import BaseError

        try:
            for batch in obstore.list(self._opened(), prefix):
                yield from ((str(found["path"]), int(found["size"])) for found in batch)
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise self._refused(f"list {prefix}", error) from None

    def _refused(self, what: str, error: Exception) -> CommandError:
        code = _CODE.search(str(error))
        return CommandError(
            f"the store {self._address.shown} does not {what}: "
            f"{code[1] if code else type(error).__name__}; its keys are in Secret "
            f"{self._secret}, and --endpoint says where it is from here",
            ExitCode.UNREACHABLE,
        )

    def _opened(self) -> "S3Store":
        if self._client is None:
            from obstore.store import S3Store

            endpoint = self._endpoint or self._reachable()
            found = self._credentials()
            self._client = S3Store(
                self._address.bucket,
                endpoint=endpoint,
                region=self._address.region,
                virtual_hosted_style_request=False,
                credential_provider=lambda: found,
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "connect_timeout": _CONNECT,
                    "timeout": _REQUEST,
                },
                retry_config={"max_retries": 2, "retry_timeout": _REQUEST},
            )
        return self._client

    def _reachable(self) -> str:
        """The endpoint, by a port-forward where it is a Service inside of the cluster."""
        parts = urlsplit(self._address.endpoint)
        inside = IN_CLUSTER.fullmatch(parts.hostname or "")
        if inside is None:
            return self._address.endpoint
        if parts.scheme == "https":
            raise CommandError(
                f"{self._address.endpoint} is inside of the cluster, and its certificate is for "
                "that name: give an --endpoint that leads there from here",
                ExitCode.UNREACHABLE,
            )
        words = (f"service/{inside['service']}", parts.port or 80, inside["namespace"])
        return f"http://127.0.0.1:{self._open.enter_context(forwarded(self._kubectl, *words))}"

    def _credentials(self) -> Any:
        keys = "{'|'}".join(f"{{.data.{key}}}" for key in SECRET_KEYS.values())
        printed = self._kubectl.run(
            *("get", "secret", self._secret, "--ignore-not-found", "-o", f"jsonpath={keys}")
        )
        identity, _, secret = printed.strip().partition("|")
        if not identity or not secret:
            raise CommandError(
                f"there is no Secret {self._secret} with {' and '.join(SECRET_KEYS.values())} in "
                f"namespace {self._kubectl.namespace()}; name another one with --store-secret",
                ExitCode.UNREACHABLE,
            )
        decoded = (base64.b64decode(text).decode().strip() for text in (identity, secret))
        names = ("access_key_id", "secret_access_key")
        return {**dict(zip(names, decoded, strict=True)), "token": None, "expires_at": None}
