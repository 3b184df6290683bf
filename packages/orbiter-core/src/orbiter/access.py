"""Who may speak to a server over HTTP: pure functions of what ASGI tells of a request."""

import hmac
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip")


def is_loopback(host: str) -> bool:
    """Say whether a host's name or address means this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_local(scope: Mapping[str, Any]) -> bool:
    """Say whether a program of this machine asks, and no proxy and no stranger's page.

    A page that is open in the user's browser is on this machine too: it is told by a Host that is
    no address of ours (a name that was made to point here). Its Origin is the caller's to judge.

    Args:
        scope: Of ASGI.
    """
    if any(header(scope, name) is not None for name in _PROXIED):
        return False
    ends = [end[0] for end in (scope.get("client"), scope.get("server")) if end]
    host = header(scope, "host") or ""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return len(ends) == 2 and all(map(is_loopback, [*ends, name]))


def header(scope: Mapping[str, Any], name: str) -> str | None:
    """Return the first header of a name, which is in lower case; None without one."""
    wanted = name.encode()
    for key, value in scope["headers"]:
        if key == wanted:
            return str(value, "latin-1")
    return None


def bearer_token(scope: Mapping[str, Any]) -> str | None:
    """Return what a request presents as `Authorization: Bearer ...`; None if it does not."""
    scheme, _, token = (header(scope, "authorization") or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def is_token(given: str | None, token: str) -> bool:
    """Say, in a time that tells nothing, whether a request presents the server's token.

    Args:
        given: From a header; such texts are bytes read as Latin-1.
        token: The server's.
    """
    if given is None:
        return False
    found = hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())
    with suppress(UnicodeEncodeError):
        # a client may have written other characters than ASCII as UTF-8
        found |= hmac.compare_digest(given.encode("latin-1"), token.encode())
    return found
