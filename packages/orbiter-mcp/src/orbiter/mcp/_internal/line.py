"""The line to a server: one connection after the other, as long as the client is open."""

import asyncio
from collections.abc import Sequence
from typing import Any

from orbiter.mcp._internal.connection import Connection
from orbiter.mcp.errors import MCPConnectionError


class Line:
    """Opens a connection, and a new one when it is needed and the last has ended."""

    def __init__(
        self,
        name: str,
        server: Any,
        connect_timeout: float,
        pauses: Sequence[float],
        answer: Any = None,
    ) -> None:
        self._answer = answer
        self._name = name
        self._server = server
        self._connect_timeout = connect_timeout
        self._pauses = tuple(pauses)
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect for the first time.

        Raises:
            MCPConnectionError: The server cannot be reached, or the line is open already.
        """
        if self.is_open:
            raise MCPConnectionError(self._name, "is open already; use a client of its own")
        self._connection = await self._opened()

    async def close(self) -> None:
        """Close the connection, and wait until a program that was started has ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def connected(self) -> Connection:
        """Return a connection that is open, as far as is known.

        Raises:
            MCPConnectionError: The line is not open, or the server ended and cannot be reached.
        """
        async with self._one_at_a_time:
            last = self._connection
            if last is None:
                raise MCPConnectionError(self._name, "is not open; use `async with` around its use")
            if last.alive:
                return last
            await last.close()
            connection = await self._reopened()
            if self._connection is None:  # closed while it was being reached
                await connection.close()
                raise MCPConnectionError(self._name, "was closed")
            self._connection = connection
            return connection

    async def _reopened(self) -> Connection:
        problem: MCPConnectionError | None = None
        for pause in self._pauses:
            await asyncio.sleep(pause)
            try:
                return await self._opened()
            except MCPConnectionError as error:
                problem = error
        raise problem or MCPConnectionError(self._name, "ended, and is not to be started again")

    async def _opened(self) -> Connection:
        connection = Connection(self._name, self._server, self._answer)
        await connection.open(self._connect_timeout)
        return connection
