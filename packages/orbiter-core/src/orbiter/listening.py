"""The socket of a server, opened before anything is announced: its address works by then."""

import asyncio
import errno
import os
import socket

from orbiter.types import OrbiterError

__all__ = ["listen", "outside_of_a_loop", "url_of"]
_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that takes connections.

    Args:
        host: A name or address of this machine.
        port: 0 takes any that is free.

    Raises:
        OrbiterError: It cannot be had; the text names the address and what to do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OrbiterError(
            f"nothing can be served at {host}: {error.strerror}; name an address of this machine"
        ) from error
    try:
        if os.name == "posix":
            # else the port of a server that has just ended would be taken for a minute
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise OrbiterError(_why(host, port, error)) from error
    return opened


def outside_of_a_loop(call: str, app: str) -> None:
    """Refuse to block the event loop of this thread.

    Args:
        call: What was called, and would block it.
        app: The application to be served, as the caller's user gets it.

    Raises:
        OrbiterError: A loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise OrbiterError(
        f"{call} was called inside an event loop, which it would block: call it from a script of "
        f"its own, or give {app} to an ASGI server that runs in your loop"
    )


def url_of(host: str, opened: socket.socket) -> str:
    """Return the URL that clients use, with the port that the socket has."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{opened.getsockname()[1]}"


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is in use: stop the program that listens there, or choose "
            "another port (0 takes one that is free)"
        )
    step = "name an address of this machine"
    if error.errno == errno.EACCES:
        step = "choose a port from 1024 on"
    return f"nothing can be served at {host}, port {port}: {error.strerror}; {step}"
