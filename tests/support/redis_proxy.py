"""A TCP proxy before Redis that breaks the connection at exactly one command.

Where other tests hope to hit the moment between two commands, these name it: "when the wrapper's
seventh command has been executed and its reply is on the way".
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from support import servers

When = Literal["before", "after"]


@dataclass
class Fault:
    """Break the connection before the command reaches Redis, or after Redis has executed it."""

    number: int
    when: When
    also: Callable[[], None] = lambda: None


@dataclass
class RedisProxy:
    """A running proxy. `commands` are all commands so far, the name and arguments of each."""

    upstream_port: int
    port: int = 0
    fault: Fault | None = None
    commands: list[list[str]] = field(default_factory=list)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What REDIS_URL has to be."""
        return f"redis://127.0.0.1:{self.port}/0"

    def named(self, name: str) -> list[list[str]]:
        """The commands of that name."""
        return [command for command in self.commands if command[0] == name]

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one client's commands on."""
        upstream, up = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        self._writers += [writer, up]
        swallow = asyncio.Event()
        back = asyncio.create_task(self._replies(upstream, writer, swallow))
        try:
            while True:
                raw, command = await _command(reader)
                self.commands.append(command)
                fault = self.fault
                if fault and len(self.commands) == fault.number:
                    if fault.when == "before":
                        fault.also()
                        break
                    swallow.set()
                up.write(raw)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            back.cancel()
            for stream in (writer, up):
                stream.transport.abort()

    async def _replies(
        self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, swallow: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await upstream.read(65536):
                if swallow.is_set():
                    if self.fault:
                        self.fault.also()
                    break
                writer.write(data)
        writer.transport.abort()


@asynccontextmanager
async def redis_proxy(upstream_port: int) -> AsyncIterator[RedisProxy]:
    """A proxy before the Redis on that port."""
    proxy = RedisProxy(upstream_port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        await servers.shut(server)
        proxy.cut()
        await asyncio.sleep(0)


async def _command(reader: asyncio.StreamReader) -> tuple[bytes, list[str]]:
    """Read one command: its bytes, and its name and arguments."""
    line = await reader.readuntil(b"\r\n")
    raw, words = line, []
    for _ in range(int(line[1:])):
        size = await reader.readuntil(b"\r\n")
        body = await reader.readexactly(int(size[1:]) + 2)
        raw += size + body
        words.append(body[:-2].decode("utf-8", "replace"))
    return raw, words
