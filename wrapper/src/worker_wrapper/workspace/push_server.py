"""Pushes what one worker sends: to one branch, once, with a credential that the worker lacks.

Before that it fetches one commit for the worker, if it is asked to: a clone is of the newest one,
and a work that goes on began with an earlier one.

Its container has a uid of its own, and of the workspace it sees nothing. The agent's commits come
over a socket, as a pack of bounded size, into a repository made here: its configuration is ours
(git.py), and a pack is data, which git checks before it uses it.

The agent has the worker's uid, so no mode of file or socket tells the two apart. The order does:
one connection is accepted, the worker makes it before the agent starts, and from then on nobody
listens; nor after this container was started again, which is what the mark is for.
"""

import asyncio
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from orbiter_contracts import GitWorkspace, InvalidMessageError, decode_json
from worker_wrapper.logging import Log
from worker_wrapper.redact import Redactor
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.fetching import fetch_with
from worker_wrapper.workspace.git import SMALL, Git, GitError, push
from worker_wrapper.workspace.handover import (
    HELLO,
    LINE_BYTES,
    PACK_BYTES,
    FetchReply,
    FetchRequest,
    PushReply,
    PushRequest,
    lines,
    read_shallow,
)

RECEIVE_SECONDS: Final = 600.0
"""How long the pack may take to arrive, and each command of git."""
_CHUNK: Final = 256 * 1024
_HASH_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class PushServer:
    """Accepts one connection and does what is asked on it, if it may be.

    Attributes:
        socket_path: Where to listen.
        wanted: The task's repository.
        branch: The task's branch; None when there was no clone, and there is nothing to push.
        credentials_dir: The mounted Secret.
        cloned: A copy of the objects the work began with.
        directory: A place nobody else writes to while we run.
        environ: Our environment.
        redactor: Knows the credential.
        log: The log.
        pack_bytes: How large a pack may be.
    """

    socket_path: Path
    wanted: GitWorkspace
    branch: str | None
    credentials_dir: Path
    cloned: Path
    directory: Path
    environ: Mapping[str, str]
    redactor: Redactor
    log: Log
    pack_bytes: int = PACK_BYTES

    async def serve(self) -> None:
        """Serve the one worker, from its connection to its end; at once over when that was."""
        connected = self.directory / "connected"
        if connected.exists():
            self.log.error("started_again", error="the one connection there is was made before")
            return
        connection = await self._accept(connected)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LINE_BYTES)
        try:
            writer.write(HELLO)
            request = await _asked(reader)
            if isinstance(request, FetchRequest):
                await self._give(request.fetch, reader, writer)
                request = await _asked(reader)
            reply = PushReply(error=await self._served(request, reader))
            self.log.info("pushed" if reply.error is None else "not_pushed", error=reply.error)
            writer.write(reply.model_dump_json().encode() + b"\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self.log.info("worker_gone", error=str(error))
        finally:
            writer.close()

    async def _accept(self, connected: Path) -> socket.socket:
        """The first connection; whoever comes later finds nobody who listens."""
        self.socket_path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.setblocking(False)
            listener.bind(str(self.socket_path))
            self.socket_path.chmod(0o666)
            listener.listen(1)
            self.log.info("listening", socket=str(self.socket_path))
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            connected.touch(exist_ok=False)
        self.socket_path.unlink()
        return connection

    async def _give(
        self, commit: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Fetch a commit and send it, or say why not. What is pushed stands on it, so it stays."""
        self._fetched.mkdir()
        stop = StopTurn()
        gone = asyncio.create_task(_until_gone(reader, stop))
        git = Git(self.environ, self.directory, RECEIVE_SECONDS, stop)
        pack, reply = None, FetchReply()
        try:
            await git("init", "-q", "--bare", "--template=", ".", workdir=self._fetched)
            fetch = fetch_with(self.wanted, self.credentials_dir, at=SMALL)
            await fetch(git, self._fetched, commit)
            (pack,) = (self._fetched / "objects" / "pack").glob("*.pack")
            shallow = read_shallow(self._fetched)
            reply = FetchReply(size=pack.stat().st_size, shallow=shallow)
        except ValidationError as error:
            pack, reply = None, FetchReply(error=f"git fetch: {error.errors()[0]['msg']}")
        except (GitError, OSError, ValueError) as error:
            pack, reply = None, FetchReply(error=self.redactor.scrub(str(error)))
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        self.log.info("fetched", commit=commit, bytes=reply.size, error=reply.error)
        writer.write(reply.model_dump_json().encode() + b"\n")
        if pack is not None:
            with pack.open("rb") as file:
                while data := file.read(_CHUNK):
                    writer.write(data)
                    await writer.drain()
        await writer.drain()

    @property
    def _fetched(self) -> Path:
        return self.directory / "fetched"

    async def _served(
        self, request: PushRequest | FetchRequest | str, reader: asyncio.StreamReader
    ) -> str | None:
        """Do what is asked; None when it is done, else why not."""
        if isinstance(request, str):
            return f"git push: the request is none: {request}"
        if isinstance(request, FetchRequest):
            return "git fetch: one commit was asked for already"
        if self.branch is None:
            return "git push: there is no branch to push to"
        if request.size > self.pack_bytes:
            return (
                f"git push: the new commits are {request.size} bytes, and {self.pack_bytes} is the "
                "most: commit fewer or smaller files"
            )
        repository = self.directory / "repository"
        try:
            async with asyncio.timeout(RECEIVE_SECONDS):
                pack = await self._receive(reader, request.size, repository)
            await self._push(reader, request, pack, repository, self.branch)
        except TimeoutError:
            return "git push: the new commits took too long to arrive"
        except (GitError, OSError) as error:
            said: str = self.redactor.scrub(str(error))
            return said
        finally:
            shutil.rmtree(repository, ignore_errors=True)
        return None

    async def _receive(self, reader: asyncio.StreamReader, size: int, repository: Path) -> Path:
        """Write the pack where git looks for it, under the name git would give it."""
        packs = repository / "objects" / "pack"
        packs.mkdir(parents=True)
        draft, end = packs / "draft", b""
        with draft.open("wb") as file:
            while size > 0:
                data = await reader.read(min(size, _CHUNK))
                if not data:
                    raise asyncio.IncompleteReadError(b"", size)
                file.write(data)
                size -= len(data)
                end = (end + data)[-_HASH_BYTES:]
        return draft.rename(packs / f"pack-{end.hex()}.pack")

    async def _push(
        self,
        reader: asyncio.StreamReader,
        request: PushRequest,
        pack: Path,
        repository: Path,
        branch: str,
    ) -> None:
        stop = StopTurn()
        gone = asyncio.create_task(_until_gone(reader, stop))
        git = Git(self.environ, self.directory, RECEIVE_SECONDS, stop)
        try:
            await git("init", "-q", "--bare", "--template=", ".", workdir=repository)
            alternates = repository / "objects" / "info" / "alternates"
            alternates.parent.mkdir(exist_ok=True)
            others = [path for path in (self.cloned, self._fetched / "objects") if path.exists()]
            alternates.write_text("".join(f"{path}\n" for path in others))
            (repository / "shallow").write_text(lines(request.shallow))
            await git("index-pack", "--threads=1", str(pack), workdir=repository, at=SMALL)
            kind = await git("cat-file", "-t", request.head, workdir=repository, at=SMALL)
            if kind.strip() != "commit":
                raise GitError(f"git push: {request.head} is no commit but a {kind.strip()}")
            where = (self.wanted.url, request.head, branch, self.credentials_dir)
            await push(git, repository, *where, at=SMALL)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


async def _asked(reader: asyncio.StreamReader) -> PushRequest | FetchRequest | str:
    """What the worker asks for; a text says why that is nothing."""
    try:
        line = await reader.readuntil(b"\n")
        with suppress(InvalidMessageError):
            return decode_json(FetchRequest, line)
        return decode_json(PushRequest, line)
    except (asyncio.LimitOverrunError, InvalidMessageError) as error:
        return str(error)


async def _until_gone(reader: asyncio.StreamReader, stop: StopTurn) -> None:
    """End the push when the worker has gone; and one that still talks is none of ours."""
    await reader.read(1)
    stop.set("cancelled")
