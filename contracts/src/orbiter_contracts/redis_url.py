"""The URL of a Redis, for every program that connects to one. Pure: it connects to nothing.

    redis://user:password@host:6379/0              one server
    rediss://user:password@host:6379/0             the same, with TLS
    unix:///a/socket
    redis+sentinel://user:password@host1:26379,host2:26379/NAME/0
    rediss+sentinel://…                            TLS to the Sentinels and to the server they name

NAME is what the Sentinels call the primary, user and password are the server's. An option behind
`?` is one of redis-py's (`ssl_ca_certs=/a/ca.crt` names the CA), and the `ssl_` ones count for the
Sentinels too; `sentinel_username` and `sentinel_password` are the Sentinels' own.
Redis-Sentinel-Url and Prefect write it so. (Celery repeats a URL for each Sentinel, Lettuce has the
name as a fragment.)
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

_PLAIN: Final = ("redis", "rediss")
_SENTINEL: Final = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
_CLUSTER: Final = ("redis+cluster", "rediss+cluster")
_SENTINEL_PORT: Final = "26379"
_SENTINEL_OPTIONS: Final = ("sentinel_username", "sentinel_password")
_FOREIGN: Final = frozenset(
    {
        *("db", "username", "password", "sentinel_username", "sentinel_password", "client_name"),
        *("ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval"),
        *("retry_on_timeout", "max_connections", "timeout"),
    }
)
"""Options that name no file: one would be opened there and then, be it a pipe nobody writes to."""
_FORMS: Final = (
    "a URL like redis://user:password@host:6379/0, rediss://…, unix:///a/socket or "
    "redis+sentinel://user:password@host1:26379,host2:26379/NAME/0"
)


class RedisUrlError(ValueError):
    """A URL cannot be used; the text says why, as what follows its name, and shows no password."""


class ClusterError(RedisUrlError):
    """What it leads to is a Redis Cluster."""

    def __init__(self, shown: str) -> None:
        super().__init__(
            f"leads to a Redis Cluster ({shown}), which Orbiter does not use: its commands go over "
            "keys that a Cluster keeps apart. Give it the URL of one primary (redis://, rediss://) "
            "or of the Sentinels of one (redis+sentinel://)"
        )


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A URL in the parts that a client of Redis needs.

    Attributes:
        server: What redis-py takes; behind Sentinels the host is in its place only.
        shown: The URL without user, password and options, for logs and status.
        primary: What the Sentinels call the primary; empty without Sentinels.
        sentinels: The URL of each Sentinel, as redis-py takes it.
    """

    server: str = field(repr=False)
    shown: str
    primary: str = ""
    sentinels: tuple[str, ...] = field(default=(), repr=False)


def read_redis_url(url: str) -> RedisUrl:
    """Read a URL.

    Raises:
        RedisUrlError: It has none of the forms above, or is a Cluster's (ClusterError).
    """
    scheme, colon, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme in _CLUSTER:
        authority = rest.partition("/")[0].partition("?")[0]
        # One that is cut short by a character of the password is left out.
        whole = "@" in authority or "@" not in rest
        raise ClusterError(f"{scheme}://{authority.rpartition('@')[2] if whole else '…'}")
    if colon and scheme in _SENTINEL:
        return _behind_sentinels(scheme, rest)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PLAIN and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise _malformed() from None
    if parts.scheme == "unix":
        usable = bool(parts.path)
    elif usable:
        database = parts.path.strip("/")
        usable = not database or database.isdecimal()
    if not usable:
        raise _malformed()
    _check_tls(parts.scheme, parts.query)
    host = parts.netloc.rpartition("@")[2]
    return RedisUrl(url, urlunsplit((parts.scheme, host, parts.path, "", "")))


def foreign_url_problem(url: str) -> str | None:
    """Why a program does not follow a URL that others have a say in; None when it does.

    Args:
        url: As a Secret of theirs has it.
    """
    # a socket of this machine is nobody's Redis
    if not url.strip().lower().startswith(("redis://", "rediss://", "redis+", "rediss+")):
        return "does not lead to a Redis"
    for option, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if option not in _FOREIGN:
            return f"has the option {option[:60]!r}, which is not taken from there"
    try:
        read_redis_url(url.strip())
    except RedisUrlError as error:
        return str(error)
    return None


def hello_fields(reply: object) -> dict[str, object]:
    """What a server says of itself to HELLO, in whatever shape and encoding the reply came."""
    if isinstance(reply, dict):
        flat = [part for pair in reply.items() for part in pair]
    else:
        flat = reply if isinstance(reply, list) else []
    texts = [part.decode(errors="replace") if isinstance(part, bytes) else part for part in flat]
    return {str(name): value for name, value in zip(texts[::2], texts[1::2], strict=False)}


def with_login(url: str, user: str, password: str) -> str:
    """The same URL for another user.

    Args:
        url: A URL that `read_redis_url` reads.
        user: The user's name.
        password: Its password.
    """
    parts = urlsplit(url)
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}"))


def _behind_sentinels(scheme: str, rest: str) -> RedisUrl:
    """Read what follows the scheme. By hand: urllib knows one host, and that may have no comma."""
    place, _, query = rest.partition("?")
    authority, _, path = place.partition("/")
    user, at, hosts = authority.rpartition("@")
    primary, _, database = path.partition("/")
    database = database.strip("/") or "0"
    if not primary:
        raise RedisUrlError(
            "names no primary: behind the Sentinels of redis+sentinel:// comes what they call it, "
            "as in redis+sentinel://host1:26379,host2:26379/mymaster/0"
        )
    addresses = [_address(host) for host in hosts.split(",")]
    if not database.isdecimal():
        raise _malformed()
    _check_tls(_SENTINEL[scheme], query)
    options = dict(parse_qsl(query))
    own = [quote(options.pop(name, ""), safe="") for name in _SENTINEL_OPTIONS]
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    plain = _SENTINEL[scheme]
    credentials = f"{own[0]}:{own[1]}@" if any(own) else ""
    return RedisUrl(
        server=_joined(f"{plain}://{user}{at}{addresses[0]}/{database}", options),
        shown=f"{scheme}://{','.join(addresses)}/{primary}/{database}",
        primary=unquote(primary),
        sentinels=tuple(_joined(f"{plain}://{credentials}{one}", tls) for one in addresses),
    )


def _check_tls(scheme: str, query: str) -> None:
    option = next((name for name, _ in parse_qsl(query) if name.startswith("ssl_")), None)
    if option and scheme != "rediss":
        raise RedisUrlError(f"has the option {option} and no TLS: it must begin with rediss")


def _joined(url: str, options: dict[str, str]) -> str:
    return f"{url}?{urlencode(options)}" if options else url


def _address(host: str) -> str:
    """A Sentinel's host and port."""
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port or _SENTINEL_PORT
    except ValueError:
        raise _malformed() from None
    if not parts.hostname or parts.netloc != host or "@" in host:
        raise _malformed()
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{name}:{port}"


def _malformed() -> RedisUrlError:
    return RedisUrlError(f"is malformed: it must be {_FORMS}")
