"""The way to Redis from a terminal: a given URL, or a port-forward to the cluster's own.

The user of the URL in the cluster's Secret may do what a chat front end does and nothing else. Its
password stays in this process: it is neither printed nor put into the argv of anything.
"""

import base64
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.ui.outcome import CommandError, ExitCode

if TYPE_CHECKING:
    from redis import Redis

SECRET: Final = "orbiter-redis"  # noqa: S105 - the name of one
"""The chart's `workers.redisSecretName`, in each namespace that has sessions."""
CHAT_KEY: Final = "chat-url"
_IN_CLUSTER: Final = re.compile(r"(?P<service>[^.]+)\.(?P<namespace>[^.]+)\.svc(\..+)?")
_PORT: Final = re.compile(r"^Forwarding from 127\.0\.0\.1:(\d+) ")
_FORWARD_SECONDS: Final = 20.0
_CONNECT_SECONDS: Final = 5.0
_REPLY_SECONDS: Final = 15.0
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
_OTHERWISE: Final = "give a URL with --redis-url or ORBITER_REDIS_URL"


class RedisForward:
    """Connects to Redis, and connects again after a connection broke.

    Args:
        kubectl: The cluster, in whose namespace the session lives.
        url: A URL to use as it is, instead of the cluster's.
    """

    def __init__(self, kubectl: Kubectl, url: str | None) -> None:
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
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        self._close()
        url = self._url or chat_url(self._kubectl)
        try:
            parts = urlsplit(url)
            inside = _IN_CLUSTER.fullmatch(parts.hostname or "")
            port = parts.port or 6379
        except ValueError:
            raise _malformed() from None
        where = parts.hostname or parts.path
        if inside and not self._url:
            where = f"service/{inside['service']} in namespace {inside['namespace']}"
            words = (f"service/{inside['service']}", port, inside["namespace"])
            local = self._open.enter_context(forwarded(self._kubectl, *words))
            user = parts.netloc.rpartition("@")[0]
            url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{local}"))
        try:
            client = Redis.from_url(
                url,
                decode_responses=True,
                protocol=2,
                # a client that tries again by itself might send a message twice
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=_CONNECT_SECONDS,
                socket_timeout=_REPLY_SECONDS,
            )
        except ValueError:
            raise _malformed() from None
        self._redis = client
        self._open.callback(client.close)
        try:
            client.ping()
        except RedisError as error:
            self._close()
            raise CommandError(
                f"Redis at {where} does not answer: {error}", ExitCode.UNREACHABLE
            ) from None

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


def chat_url(kubectl: Kubectl) -> str:
    """Read the URL for front ends from the Secret in the session's namespace.

    Raises:
        CommandError: The Secret, its key, or the right to read it is missing.
    """
    try:
        printed = kubectl.run(
            *("get", "secret", SECRET, "--ignore-not-found"),
            *("-o", f"jsonpath={{.data.{CHAT_KEY}}}{{'|'}}{{.data.developer-url}}"),
        )
    except CommandError as error:
        raise CommandError(f"{error}; {_OTHERWISE}", ExitCode.UNREACHABLE) from None
    place = f"Secret {SECRET} in namespace {kubectl.namespace()}"
    encoded, _, other = printed.strip().partition("|")
    if encoded:
        return base64.b64decode(encoded).decode().strip()
    if other:
        raise CommandError(
            f"{place} has no key {CHAT_KEY}: the chart is older than this command; upgrade it, or"
            f" {_OTHERWISE}",
            ExitCode.UNREACHABLE,
        )
    raise CommandError(
        f"there is no {place}: is the namespace in the chart's workers.namespaces? Or {_OTHERWISE}",
        ExitCode.UNREACHABLE,
    )


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


def _malformed() -> CommandError:
    # without the URL, which may hold a password
    return CommandError(
        "the Redis URL is malformed: it must look like redis://user:password@host:6379/0",
        ExitCode.USAGE,
    )
