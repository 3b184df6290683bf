"""The smallest HTTP/1.1 server that the CLIs accept: requests in, JSON or an event stream out.

First in the chain: `http` reads a request, `server` routes it, `anthropic` and its like translate
it, `script` decides the answer. Standard library only, so that the image is Python and this folder.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024


class BadRequestError(Exception):
    """The bytes are no HTTP request this server understands; the connection is closed."""


@dataclass(frozen=True)
class Request:
    """One HTTP request; header names are lower case, the path has no query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object.

        Raises:
            ValueError: The body is no JSON object.
        """
        data = json.loads(self.body or b"{}")
        if not isinstance(data, dict):
            raise ValueError(f"expected a JSON object, got {type(data).__name__}")
        return data


Events = AsyncGenerator[str, None] | AsyncGenerator[bytes, None]


@dataclass(frozen=True)
class Response:
    """A whole answer (`body`) or, when `events` is set, a stream of events.

    It is JSON, or server-sent events, unless its headers say another type.
    """

    status: int = 200
    body: bytes = b"{}"
    events: Events | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


def json_response(
    data: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return `data` as a JSON answer."""
    return Response(status, json.dumps(data).encode(), headers=headers or {})


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the next request of a connection; None when the client has closed it.

    Raises:
        BadRequestError: The request line, a header or the length makes no sense.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadRequestError("connection closed inside the headers") from None
        return None
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise BadRequestError(f"bad request line {lines[0]!r}")
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await read_body(reader, headers)
    return Request(words[0], words[1].partition("?")[0], headers, body)


async def read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """Read a body of known length or in chunks."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return b"".join(parts)
    length = int(headers.get("content-length", "0"))
    if length > MAX_BODY_BYTES:
        raise BadRequestError(f"body of {length} bytes is over the limit of {MAX_BODY_BYTES}")
    return await reader.readexactly(length)


def phrase(status: int) -> str:
    """Return the words of a status; 529 (overloaded) is Anthropic's own."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded" if status == 529 else "Unknown"


async def write_response(writer: asyncio.StreamWriter, response: Response, method: str) -> None:
    """Send the answer; an event stream is sent in chunks as its events come."""
    if response.events is None:
        usual = {"content-type": "application/json", "content-length": str(len(response.body))}
    else:
        usual = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    headers = usual | dict(response.headers)
    lines = [f"HTTP/1.1 {response.status} {phrase(response.status)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if response.events is not None:
        async with aclosing(response.events) as events:
            async for event in events:
                data = event.encode() if isinstance(event, str) else event
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
    elif method != "HEAD":
        writer.write(response.body)
    await writer.drain()


class Connection(asyncio.StreamReaderProtocol):
    """One client: its requests are answered one after the other until it leaves.

    A client that goes away while its answer is being made (a killed agent) cancels the answer, so
    that a hanging script does not outlive the agent it was meant for.
    """

    def __init__(self, handler: Handler) -> None:
        super().__init__(asyncio.StreamReader(limit=MAX_HEAD_BYTES), self._connected)
        self._handler = handler
        self._serving: asyncio.Task[None] | None = None
        self._answering = False

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving = asyncio.get_running_loop().create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(BadRequestError, ValueError, asyncio.IncompleteReadError, ConnectionError):
            while (request := await read_request(reader)) is not None:
                self._answering = True
                response = await self._handler(request)
                await write_response(writer, response, request.method)
                self._answering = False
        writer.close()

    def eof_received(self) -> bool:
        """Take the end of the client's side as its leaving when it still owes us a read."""
        if self._answering and self._serving:
            self._serving.cancel()
        super().eof_received()
        return not self._answering

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the answer nobody will read."""
        if self._answering and self._serving:
            self._serving.cancel()
        super().connection_lost(exc)
