"""The client of a terminal: one server or what Sentinels name, with TLS and a CA of one's own."""

from typing import TYPE_CHECKING, Any, Final

from orbiter_contracts.redis_url import ClusterError, RedisUrl, hello_fields

if TYPE_CHECKING:
    from redis import Redis

_CONNECT_SECONDS: Final = 5.0
_REPLY_SECONDS: Final = 15.0


def client_to(target: RedisUrl, *, ca: str | None = None, local_port: int | None = None) -> "Redis":
    """Make a client; it connects with its first command.

    Args:
        target: Where to.
        ca: The CA's certificate, as PEM, where the URL names none.
        local_port: A port of this machine that leads there. Whose certificate it has to be is said
            by the URL all the same.
    """
    from redis import ConnectionPool, Redis
    from redis.backoff import NoBackoff
    from redis.connection import SSLConnection, parse_url
    from redis.retry import Retry
    from redis.sentinel import Sentinel

    def options_of(url: str) -> dict[str, Any]:
        found: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]
        tls = found.get("connection_class") is SSLConnection
        return found | ({"ssl_ca_data": ca} if tls and ca and "ssl_ca_certs" not in found else {})

    timeouts = {"socket_connect_timeout": _CONNECT_SECONDS, "socket_timeout": _REPLY_SECONDS}
    # a client that tries again by itself might send a message twice
    ours = {"decode_responses": True, "protocol": 2, "retry": Retry(NoBackoff(), 0), **timeouts}
    options = options_of(target.server) | ours
    if target.sentinels:
        hosts = [options_of(url) for url in target.sentinels]
        sentinel = Sentinel(  # type: ignore[no-untyped-call]
            [(host["host"], host["port"]) for host in hosts],
            sentinel_kwargs=_as_arguments(hosts[0] | timeouts),
        )
        primary: Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
            target.primary, **_as_arguments(options)
        )
        return primary
    if local_port is not None:
        if options.get("connection_class") is SSLConnection:
            options["connection_class"] = _certified_as(options["host"])
        options |= {"host": "127.0.0.1", "port": local_port}
    return Redis.from_pool(ConnectionPool(**options))


def check(client: "Redis", target: RedisUrl) -> None:
    """Be sure that a server answers which can be used.

    Raises:
        RedisError: It does not answer.
        ClusterError: It is one of a Cluster's.
    """
    from redis.exceptions import ResponseError

    client.ping()
    try:
        said = client.execute_command("HELLO", "2")  # type: ignore[no-untyped-call]
    except ResponseError:
        return  # older than HELLO, or the user may not ask
    if hello_fields(said).get("mode") == "cluster":
        raise ClusterError(target.shown)


def _as_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a pool as those of a client, which takes no host: the Sentinels say it."""
    from redis.connection import SSLConnection

    tls = options.get("connection_class") is SSLConnection
    kept = {
        name: value
        for name, value in options.items()
        if name not in ("connection_class", "host", "port")
    }
    return kept | ({"ssl": True} if tls else {})


def _certified_as(name: str) -> Any:
    """The class of connections that lead to this machine and end at a server of that name."""
    from redis.connection import SSLConnection

    class Forwarded(SSLConnection):
        def _wrap_socket_with_ssl(self, sock: Any) -> Any:
            local, self.host = self.host, name
            try:
                return super()._wrap_socket_with_ssl(sock)  # type: ignore[no-untyped-call]
            finally:
                self.host = local

    return Forwarded
