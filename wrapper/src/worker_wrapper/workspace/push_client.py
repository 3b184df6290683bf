"""The worker's end of the connection to the container that pushes.

Made before the agent starts and held until it has ended. The descriptor is closed in every program
that this process starts, and this process is undumpable (process/kernel.py), so that the agent,
which has the same uid, can neither take it from /proc nor by pidfd_getfd. Another connection is not
to be had (push_server.py).
"""

import asyncio
import socket
import tempfile
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from orbiter_contracts import GitWorkspace, InvalidMessageError, WorkspaceReport, decode_json
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.git import Git, GitError, packed
from worker_wrapper.workspace.handover import (
    HELLO,
    LINE_BYTES,
    SOCKET,
    FetchReply,
    FetchRequest,
    PushReply,
    PushRequest,
    lines,
    read_report,
    read_shallow,
)
from worker_wrapper.workspace.repository import WorkspaceError

CONNECT_SECONDS: Final = 60.0
"""How long the other container may take to start; both are started at about the same time."""
PUSH_SECONDS: Final = 2400.0
"""More than the other side gives itself for the pack and its commands."""
_RETRY_SECONDS: Final = 0.02
_CHUNK: Final = 256 * 1024
_HASH_BYTES: Final = 20
T = TypeVar("T")


class PushConnection:
    """The one connection; `fetch` is used once, before the agent starts, and `push` after it."""

    def __init__(self, connection: socket.socket, stop: StopTurn) -> None:
        self._socket = connection
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._read = b""

    @classmethod
    async def make(
        cls, handover: Path, stop: StopTurn, *, seconds: float = CONNECT_SECONDS
    ) -> "PushConnection":
        """Connect, and wait until nobody else can any more.

        Raises:
            WorkspaceError: The other container does not answer, or a stop was asked for.
        """
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        made = cls(connection, stop)
        try:
            await made._in_time(made._hello(str(handover / SOCKET)), seconds)
        except (GitError, OSError) as error:
            connection.close()
            raise WorkspaceError(
                f"the container git-push does not answer ({error}): its log says why"
            ) from None
        return made

    async def push(self, git: Git, repository: Path, head: str, base: str | None) -> None:
        """Have a commit pushed to the task's branch.

        Args:
            git: Runs git.
            repository: One of ours that sees the agent's commits.
            head: The commit.
            base: The one that the work began with, which the other container has.

        Raises:
            GitError: It was not pushed; the text is git's own word, or who failed.
        """
        shallow = _shallow(repository, base)
        with tempfile.TemporaryDirectory(dir=git.spill_dir, prefix="pack-") as directory:
            (repository / "shallow").write_text(lines(shallow))
            pack = await packed(git, repository, [head], base, Path(directory))
            try:
                request = PushRequest(head=head, size=pack.stat().st_size, shallow=shallow)
            except ValidationError as error:
                raise GitError(f"git push: {error.errors()[0]['msg']}") from None
            line = request.model_dump_json().encode() + b"\n"
            try:
                reply = await self._in_time(self._ask(line, pack), PUSH_SECONDS)
            except (OSError, InvalidMessageError) as error:
                raise GitError(
                    f"git push: the container git-push has ended ({error}); it may have used more "
                    "memory than its limit"
                ) from None
        if reply.error is not None:
            raise GitError(reply.error)

    async def fetch(self, git: Git, directory: Path, commit: str) -> None:
        """Have a commit of the task's repository, which the clone lacks.

        Args:
            git: Runs git.
            directory: The workspace, which no agent has seen yet.
            commit: Its id.

        Raises:
            GitError: It is not to be had; the text is git's own word.
            WorkspaceError: The other container does not answer, so that it could not push either.
        """
        try:
            line = FetchRequest(fetch=commit).model_dump_json().encode() + b"\n"
        except ValidationError as error:
            raise GitError(f"git fetch: {error.errors()[0]['msg']}") from None
        draft = directory / ".git" / "objects" / "pack" / "draft"
        try:
            reply, end = await self._in_time(self._receive(line, draft), PUSH_SECONDS)
        except (GitError, OSError, InvalidMessageError) as error:
            raise WorkspaceError(f"the container git-push has ended ({error})") from None
        if reply.error is not None:
            raise GitError(reply.error)
        pack = draft.rename(draft.with_name(f"pack-{end.hex()}.pack"))
        await git("index-pack", str(pack), workdir=directory)
        shallow = sorted({*read_shallow(directory / ".git"), *reply.shallow})
        (directory / ".git" / "shallow").write_text(lines(shallow))

    def close(self) -> None:
        """Hang up; a push that still goes on is ended."""
        self._socket.close()

    async def _hello(self, path: str) -> None:
        while True:
            try:
                await self._loop.sock_connect(self._socket, path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(_RETRY_SECONDS)
        if await self._line() != HELLO:
            raise ConnectionAbortedError("it has hung up")

    async def _receive(self, line: bytes, draft: Path) -> tuple[FetchReply, bytes]:
        """Ask, and write the pack that is the answer; return its end, too, which names it."""
        await self._loop.sock_sendall(self._socket, line)
        reply = decode_json(FetchReply, await self._line())
        left, end = reply.size, b""
        with draft.open("wb") as file:
            while left:
                data = self._read or await self._loop.sock_recv(self._socket, min(left, _CHUNK))
                if not data:
                    raise ConnectionAbortedError("it has hung up")
                data, self._read = data[:left], data[left:]
                file.write(data)
                left -= len(data)
                end = (end + data)[-_HASH_BYTES:]
        return reply, end

    async def _ask(self, line: bytes, pack: Path) -> PushReply:
        # Refused early, it hangs up before it has read all, and its answer is there all the same.
        with suppress(ConnectionError), pack.open("rb") as file:
            await self._loop.sock_sendall(self._socket, line)
            await self._loop.sock_sendfile(self._socket, file)
        return decode_json(PushReply, await self._line())

    async def _line(self) -> bytes:
        while b"\n" not in self._read and len(self._read) < LINE_BYTES:
            data = await self._loop.sock_recv(self._socket, LINE_BYTES)
            if not data:
                break
            self._read += data
        line, end, self._read = self._read.partition(b"\n")
        return line + end

    async def _in_time(self, work: Awaitable[T], seconds: float) -> T:
        """Do something with the connection, unless it takes too long or a stop is asked for."""
        doing, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait(
                {doing, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if doing.done():
                return doing.result()
            why = "stopped" if stopped.done() else "took too long"
        finally:
            for task in (doing, stopped):
                task.cancel()
            await asyncio.gather(doing, stopped, return_exceptions=True)
        self.close()
        raise GitError(f"git push: {why}")


async def take_over(
    handover: Path, wanted: GitWorkspace, stop: StopTurn
) -> tuple[WorkspaceReport, PushConnection | None]:
    """Take the workspace over from the container that has cloned it, before the agent starts.

    Returns:
        What `workspace.prepare` would have, and the way to push, if the task wants that.

    Raises:
        WorkspaceError: It could not be cloned, or nobody is there to push.
    """
    try:
        report = read_report(handover)
    except (OSError, InvalidMessageError) as error:
        raise WorkspaceError(f"the container git-clone has left no report: {error}") from None
    if report.error is not None:
        raise WorkspaceError(report.error)
    if wanted.push != "Always":
        return report, None
    return report, await PushConnection.make(handover, stop)


def _shallow(repository: Path, base: str | None) -> list[str]:
    """The commits whose parents the other container is not to ask for: the agent's, and the base.

    The base is one whatever the agent has fetched since: its parents are not over there.
    """
    return sorted({*read_shallow(repository), *filter(None, [base])})
