"""OAuth of MCP servers: a person allows it once, in a browser; what was granted is kept."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from orbiter.mcp.errors import MCPConfigError

DEFAULT_PORT = 41763
_DIRECTORY = "~/.orbiter/mcp-tokens"

__all__ = ["FileTokenStore", "OAuth", "TokenStore"]


class TokenStore(Protocol):
    """Keeps what servers have granted, as a text for each; the texts are secrets."""

    async def load(self, server: str) -> str | None:
        """Return what was saved for a server's URL."""
        ...

    async def save(self, server: str, record: str) -> None:
        """Keep this in place of what was there."""
        ...


class FileTokenStore:
    """A file for each server, which nobody but its owner can read."""

    def __init__(self, directory: Path | str = _DIRECTORY) -> None:
        """Name the directory; it is made when something is saved."""
        self._directory = Path(directory)

    async def load(self, server: str) -> str | None:
        """Return what was saved for a server's URL."""
        return await asyncio.to_thread(self._read, self._file(server))

    async def save(self, server: str, record: str) -> None:
        """Keep this in place of what was there.

        Raises:
            OSError: The directory cannot be written.
        """
        await asyncio.to_thread(self._write, self._file(server), record)

    def _file(self, server: str) -> Path:
        name = hashlib.sha256(server.encode()).hexdigest()[:32]
        return self._directory.expanduser() / f"{name}.json"

    def _read(self, file: Path) -> str | None:
        try:
            # a damaged file is for its reader to find wrong, as any other text
            return file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _write(self, file: Path, record: str) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a new file is its owner's alone, and takes the old one's place as a whole
        handle, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                new.write(record)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def __repr__(self) -> str:
        return f"FileTokenStore({str(self._directory)!r})"


@dataclass(frozen=True)
class OAuth:
    """How a server is signed in to; it says itself whom to ask (RFC 9728).

    Attributes:
        store: Where tokens and registrations are kept.
        scope: What to ask for, by default what the server names.
        client_id: Of a client that is registered already; by default one is registered.
        client_secret: Its secret, if it has one.
        port: The browser comes back to `http://127.0.0.1:<port>/callback`.
        on_url: Told where a person has to sign in; by default that is opened in a browser.
        timeout: Seconds a person has for it.
    """

    store: TokenStore = field(default_factory=FileTokenStore)
    scope: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    port: int = DEFAULT_PORT
    on_url: Callable[[str], Awaitable[None] | None] | None = None
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.port < 1 << 16:
            raise MCPConfigError(f"OAuth(port={self.port!r}): give a port, from 1 to 65535")
        if self.client_secret is not None and self.client_id is None:
            raise MCPConfigError("OAuth(client_secret=...) needs the client_id= that it belongs to")
