"""The way to Redis from a terminal: a given URL, or a port-forward to the cluster's own.

The user of the URL in the cluster's Secret may do what a chat front end does and nothing else. Its
password stays in this process: it is neither printed nor put into the argv of anything.
"""

import base64
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.redis_client import check, client_to
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter_contracts.redis_url import (
    ClusterError,
    RedisUrl,
    RedisUrlError,
    foreign_url_problem,
    read_redis_url,
)

if TYPE_CHECKING:
    from redis import Redis

SECRET: Final = "orbiter-chat"  # noqa: S105 - the name of one
"""The front ends' own Secret, which the operator puts into each namespace that has sessions."""
SHARED_SECRET: Final = "orbiter-redis"  # noqa: S105 - the name of one
"""Where their URL is if the operator makes no users: the chart's `workers.redisSecretName`."""
CHAT_KEY: Final = "chat-url"
IN_CLUSTER: Final = re.compile(r"(?P<service>[^.]+)\.(?P<namespace>[^.]+)\.svc(\..+)?")
_PORT: Final = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ")
_FORWARD_SECONDS: Final = 20.0
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
_OTHERWISE: Final = "give a URL with --redis-url or ORBITER_REDIS_URL"


class RedisForward:
    """Connects to Redis, and connects again after a connection broke.

    Args:
        kubectl: The cluster, in whose namespace the session lives.
        url: A URL to use as it is, instead of the cluster's.
        access: Reads the cluster's, and the certificate of its CA.
    """

    def __init__(
        self,
        kubectl: Kubectl,
        url: str | None,
        access: Callable[[Kubectl], tuple[str, str | None]] | None = None,
    ) -> None:
        self._access = access or chat_access
        self._kubectl = kubectl
        self._url = url
        self._open = ExitStack()
        self._redis: Redis | None = None

    def __enter__(self) -> "RedisForward":
        self.reopen()
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    @property
    def redis(self) -> "Redis":
        """The client of the present connection."""
        assert self._redis is not None, "it is not open"  # noqa: S101
        return self._redis

    def reopen(self) -> None:
        """Connect, with a new port-forward where one is needed.

        Raises:
            CommandError: There is no way, and why.
        """
        from redis.exceptions import RedisError

        self._close()
        url, ca = (self._url, None) if self._url else self._access(self._kubectl)
        if not self._url and (problem := foreign_url_problem(url)):
            # whoever may write Secrets there has a say in what is opened here
            raise CommandError(f"the Redis URL {problem}; {_OTHERWISE}", ExitCode.UNREACHABLE)
        try:
            target = read_redis_url(url)
            local = None if self._url else self._forwarded(target)
            client = client_to(target, ca=ca, local_port=local)
        except RedisUrlError as error:
            # without the URL, which may hold a password
            raise CommandError(f"the Redis URL {error}", ExitCode.USAGE) from None
        self._redis = client
        self._open.callback(client.close)
        try:
            check(client, target)
        except ClusterError as error:
            self._close()
            raise CommandError(f"the Redis URL {error}", ExitCode.USAGE) from None
        except RedisError as error:
            self._close()
            raise CommandError(
                f"Redis at {_where(target)} does not answer: {_explained(error)}",
                ExitCode.UNREACHABLE,
            ) from None

    def _forwarded(self, target: RedisUrl) -> int | None:
        """A port of this machine that leads to a server inside of the cluster.

        Raises:
            CommandError: There can be none.
        """
        for url in target.sentinels or (target.server,):
            parts = urlsplit(url)
            inside = IN_CLUSTER.fullmatch(parts.hostname or "")
            if inside and target.sentinels:
                raise CommandError(
                    f"the Sentinels of {target.shown} name servers by addresses inside of the "
                    f"cluster, where a port-forward does not lead; {_OTHERWISE}, or use a pod",
                    ExitCode.UNREACHABLE,
                )
            if inside:
                words = (f"service/{inside['service']}", parts.port or 6379, inside["namespace"])
                return self._open.enter_context(forwarded(self._kubectl, *words))
        return None

    def check(self) -> None:
        """Be sure of a living connection before something is sent that must not be sent twice."""
        from redis.exceptions import RedisError

        try:
            self.redis.ping()
        except RedisError:
            self.reopen_patiently()

    def reopen_patiently(self) -> None:
        """Connect again after a break, for as long as a Redis takes to come back."""
        for pause in _PAUSES:
            try:
                return self.reopen()
            except CommandError:
                time.sleep(pause)
        return self.reopen()

    def _close(self) -> None:
        self._open.close()
        self._redis = None


def chat_access(kubectl: Kubectl) -> tuple[str, str | None]:
    """Read the URL for front ends from the Secret in the session's namespace.

    Returns:
        The URL, and the certificate of the CA that stands beside it, if one does.

    Raises:
        CommandError: The Secret, its key, or the right to read it is missing.
    """
    namespace = kubectl.namespace()
    for secret in (SECRET, SHARED_SECRET):
        url, other, ca = _read(kubectl, secret)
        if url:
            return _decoded(url), _decoded(ca) or None
        if other:
            raise CommandError(
                f"Secret {secret} in namespace {namespace} has no key {CHAT_KEY}: the chart is"
                f" older than this command; upgrade it, or {_OTHERWISE}",
                ExitCode.UNREACHABLE,
            )
    raise CommandError(
        f"there is no Secret {SECRET} in namespace {namespace}: is it in the chart's"
        f" workers.namespaces, or has it the label of workers.namespaceSelector? Or {_OTHERWISE}",
        ExitCode.UNREACHABLE,
    )


def _read(kubectl: Kubectl, secret: str) -> tuple[str, str, str]:
    """The URL, the workers' one and the certificate of a Secret, encoded; empty when not there."""
    keys = (CHAT_KEY, "developer-url", r"ca\.crt")
    try:
        printed = kubectl.run(
            *("get", "secret", secret, "--ignore-not-found"),
            *("-o", "jsonpath=" + "{'|'}".join(f"{{.data.{key}}}" for key in keys)),
        )
    except CommandError as error:
        raise CommandError(f"{error}; {_OTHERWISE}", ExitCode.UNREACHABLE) from None
    url, _, others = printed.strip().partition("|")
    other, _, ca = others.partition("|")
    return url, other, ca


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode().strip()


@contextmanager
def forwarded(kubectl: Kubectl, target: str, port: int, namespace: str) -> Iterator[int]:
    """Forward a free local port to a port of a Service; yields the local port.

    Raises:
        CommandError: It could not be set up.
    """
    words = ("port-forward", "--address=127.0.0.1", target, f":{port}")
    with kubectl.running(*words, namespace=namespace) as child:
        assert child.stdout is not None and child.stderr is not None  # noqa: S101, PT018
        impatient = threading.Timer(_FORWARD_SECONDS, child.kill)
        impatient.start()
        try:
            line = child.stdout.readline()
        finally:
            impatient.cancel()
        found = _PORT.match(line)
        if found is None:
            child.kill()
            said = child.stderr.read().strip() or line.strip() or "nothing was said in time"
            raise CommandError(
                f"port-forward to {target} in namespace {namespace} failed:"
                f" {said.removeprefix('error: ')}; {_OTHERWISE}",
                ExitCode.UNREACHABLE,
            )
        # kubectl writes a line per connection and stops when nobody reads them
        for pipe in (child.stdout, child.stderr):
            threading.Thread(target=pipe.read, daemon=True).start()
        yield int(found[1])


def _where(target: RedisUrl) -> str:
    parts = urlsplit(target.server)
    return target.shown if target.sentinels else parts.hostname or parts.path


def _explained(error: Exception) -> str:
    if _UNTRUSTED in str(error):
        return (
            "its certificate is not trusted; name that of its CA in the URL, as"
            f" ?ssl_ca_certs=/a/ca.crt ({error})"
        )
    return str(error)
