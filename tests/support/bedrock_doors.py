"""The scripted server in the test's own process, which keeps the requests that it was asked.

What it kept has the names that `bedrock_wire.check_signature` reads.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from model_server.http import Connection, Request, Response
from model_server.server import ModelServer


@dataclass(frozen=True)
class Received:
    """A request, and the status of its answer."""

    method: str
    target: str
    headers: dict[str, str]
    raw: bytes
    status: int

    @property
    def form(self) -> dict[str, str]:
        """What was sent, when it was a form."""
        return {name: values[0] for name, values in parse_qs(self.raw.decode()).items()}


class Doors:
    """A running server: where it is, and what it was asked so far."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self._server = ModelServer()

    async def handle(self, request: Request) -> Response:
        """Answer one request and keep it."""
        answer = await self._server.handle(request)
        told = (request.method, request.path, dict(request.headers), request.body)
        self.received.append(Received(*told, answer.status))
        return answer

    def asked(self, end: str) -> list[Received]:
        """The requests of paths that end so."""
        return [request for request in self.received if request.target.endswith(end)]

    @property
    def stats(self) -> Any:
        """The counts so far."""
        return self._server.journal.report()


@asynccontextmanager
async def doors() -> AsyncIterator[Doors]:
    """Listen on a free port as long as the block runs."""
    found = Doors()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(found.handle), "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
