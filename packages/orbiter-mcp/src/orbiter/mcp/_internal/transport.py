"""From a server's configuration to the SDK's client of it, and word of its end.

The SDK takes a second to import, so it is imported here, when a connection is made.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from orbiter.mcp.config import HttpServer, StdioServer

if TYPE_CHECKING:
    from mcp import Client

SAID_LINES = 20
_HTTP_SECONDS = 30.0
_HTTP_STREAM_SECONDS = 300.0
_LINE_BYTES = 4096


class WatchedStream:
    """The stream of a server's messages; calls `ended` when the last one was read."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    async def receive(self) -> Any:
        """Return the next message."""
        try:
            return await self._stream.receive()
        except Exception:
            self._ended()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    @property
    def last_context(self) -> Any:
        """The context of the sender of the last message, if the stream knows it."""
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended()
            raise

    async def __aenter__(self) -> WatchedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


@asynccontextmanager
async def connected(
    server: Any, said: deque[str], ended: Callable[[], None], answer: Any = None
) -> AsyncIterator[Client]:
    """Connect to a server.

    Args:
        server: A ServerConfig, or a server object of the SDK in this process.
        said: Receives what may explain a failure: the last lines of a program's stderr, the status
            codes of a refusal over HTTP.
        ended: Called when the server has gone.
        answer: Answers what it asks a person, as the SDK's `elicitation_callback`.
    """
    # a second of importing would stop everything else on the event loop
    await asyncio.to_thread(importlib.import_module, "mcp")
    from mcp import Client

    async with AsyncExitStack() as stack:
        if isinstance(server, StdioServer | HttpServer):
            transport: Any = _watched(server, said, ended)
        else:
            transport = server
        yield await stack.enter_async_context(
            Client(transport, cache=None, elicitation_callback=answer)
        )


@asynccontextmanager
async def _watched(
    server: StdioServer | HttpServer, said: deque[str], ended: Callable[[], None]
) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        if isinstance(server, StdioServer):
            from mcp.client.stdio import StdioServerParameters, stdio_client

            parameters = StdioServerParameters(
                command=server.command, args=server.args, env=server.env, cwd=server.cwd
            )
            with os.fdopen(await _collector(stack, said), "w") as errlog:
                opening = stdio_client(parameters, errlog=errlog)
                read, write = await stack.enter_async_context(opening)
        else:
            from mcp.client.streamable_http import streamable_http_client

            http = await stack.enter_async_context(_http_client(server, said))
            opening = streamable_http_client(server.url, http_client=http)
            read, write = await stack.enter_async_context(opening)
        yield WatchedStream(read, ended), write


def _http_client(server: HttpServer, said: deque[str]) -> Any:
    import httpx2

    auth = None
    if server.oauth is not None:
        from orbiter.mcp._internal.sign_in import authentication

        auth = authentication(server.url, server.oauth)

    async def note(response: httpx2.Response) -> None:
        # the SDK does not tell; servers without a stream of events refuse GET, which is all right
        if response.status_code >= HTTPStatus.BAD_REQUEST and response.request.method == "POST":
            said.append(f"HTTP {response.status_code} {response.reason_phrase}")

    timeout = httpx2.Timeout(_HTTP_SECONDS, read=_HTTP_STREAM_SECONDS)
    return httpx2.AsyncClient(
        headers=server.headers, timeout=timeout, event_hooks={"response": [note]}, auth=auth
    )


async def _collector(stack: AsyncExitStack, lines: deque[str]) -> int:
    """Return a descriptor to write to; what is written there ends up in `lines`."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
    )

    async def collect() -> None:
        while True:
            with suppress(ValueError):  # a line longer than the limit
                line = await reader.readline()
                if not line:
                    return
                lines.append(line.decode(errors="replace").rstrip())

    task = asyncio.create_task(collect())

    async def end() -> None:
        # a grandchild may hold the pipe open for ever
        transport.close()
        task.cancel()
        await asyncio.wait([task])

    stack.push_async_callback(end)
    return writing
