"""Stopping a server of a test, whoever connects to it at that very moment."""

import asyncio

from aiohttp import web

_TICKS = 3
"""Turns of the loop from "accepted" to a connection of the server's: a task makes its transport,
which calls the server's protocol and wakes the task."""


async def shut(server: asyncio.Server) -> None:
    """Let nobody more in, and wait until those that are in the door are connections.

    A server of asyncio's that closes meanwhile (Python 3.11) fails to make the transport of who was
    accepted just now. Nobody closes that socket, the client waits for ever, and a `ResourceWarning`
    tells of it in the test that happens to run when it is collected.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    for _ in range(_TICKS):
        await asyncio.sleep(0)
    server.close()


async def stop(runner: web.BaseRunner) -> None:
    """End a server of aiohttp's and all its connections."""
    for site in runner.sites:
        server = site._server
        assert isinstance(server, asyncio.Server)
        await shut(server)
    await runner.cleanup()
