"""Who pushes takes one connection, one commit for one branch, and so many bytes; nothing else."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
from support.eventually import eventually
from support.git_repositories import bare_copy, commit, git, make_template

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.redact import Redactor
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.git import Git
from worker_wrapper.workspace.handover import PACK_BYTES, SOCKET
from worker_wrapper.workspace.keeping import BaseGoneError, restore
from worker_wrapper.workspace.push_client import PushConnection
from worker_wrapper.workspace.push_server import PushServer
from worker_wrapper.workspace.repository import WorkspaceError
from worker_wrapper.workspace.workspace import Finished, finish, prepare

ZEROS = "0" * 40


@pytest.fixture(autouse=True, scope="module")
def _subreaper() -> None:
    become_subreaper()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def origin(tmp_path: Path, template: Path) -> Path:
    return bare_copy(template, tmp_path / "origin.git")


class Pod:
    """A task's workspace, and beside it what pushes, with a directory of its own."""

    def __init__(self, tmp_path: Path, origin: Path) -> None:
        self.origin = origin
        self.work, self.handover, self.private, self.spill = (
            tmp_path / name for name in ("work", "handover", "private", "spill")
        )
        for directory in (self.handover, self.private, self.spill):
            directory.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        self.stop = StopTurn()
        self.prepared = WorkspaceReport()
        self.wanted = Workspace()
        self._serving: list[asyncio.Task[None]] = []

    async def clone(self, **git: str) -> None:
        wanted = {"branch": "fix", "push": "Always", **git}
        self.wanted = Workspace(git=GitWorkspace(url=self.origin.as_uri(), **wanted))  # type: ignore[arg-type]
        self.prepared = await prepare(
            *(self.wanted, self.work, None),
            environ=self.environ,
            spill_dir=self.spill,
            stop=self.stop,
        )
        shutil.copytree(self.work / ".git" / "objects", self.private / "objects")

    def serve(self, **changes: object) -> asyncio.Task[None]:
        assert self.wanted.git is not None
        fields: dict[str, object] = {
            "socket_path": self.handover / SOCKET,
            "wanted": self.wanted.git,
            "branch": self.prepared.branch,
            "credentials_dir": None,
            "cloned": self.private / "objects",
            "directory": self.private,
            "environ": self.environ,
            "redactor": Redactor(["hunter2secret"]),
            "log": structlog.get_logger(),
            **changes,
        }
        serving = asyncio.create_task(PushServer(**fields).serve())  # type: ignore[arg-type]
        self._serving.append(serving)
        return serving

    async def connected(self) -> PushConnection:
        self.serve()
        return await PushConnection.make(self.handover, self.stop)

    async def end(self, connection: PushConnection) -> Finished:
        try:
            return await finish(
                *(self.wanted, self.work, None),
                prepared=self.prepared,
                environ=self.environ,
                spill_dir=self.spill,
                stop=self.stop,
                push_with=connection.push,
            )
        finally:
            connection.close()

    async def push(self) -> Finished:
        return await self.end(await self.connected())

    async def say(self, data: bytes, **changes: object) -> str | None:
        """Send bytes as a worker would, and return the error that comes back; None without any."""
        self.serve(**changes)
        await eventually(lambda: (self.handover / SOCKET).exists())
        reader, writer = await asyncio.open_unix_connection(str(self.handover / SOCKET))
        assert await reader.readline() == b"ready\n"
        writer.write(data)
        answer = await reader.readline()
        writer.close()
        return json.loads(answer)["error"] if answer else None

    def refs(self) -> str:
        return git(self.origin, "for-each-ref")

    async def over(self) -> None:
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


@pytest.fixture
async def pod(tmp_path: Path, origin: Path) -> AsyncIterator[Pod]:
    pod = Pod(tmp_path, origin)
    yield pod
    await pod.over()


def request(head: str, size: int, **more: object) -> bytes:
    return json.dumps({"head": head, "size": size, "shallow": [], **more}).encode() + b"\n"


def packed(repository: Path, head: str, *without: str) -> bytes:
    revisions = "\n".join([head, *(f"^{commit}" for commit in without)])
    command = ["git", "pack-objects", "-q", "--revs", "--stdout"]
    return subprocess.run(
        command, cwd=repository, input=revisions.encode(), capture_output=True, check=True
    ).stdout


async def test_what_the_agent_committed_becomes_the_head_of_the_branch(pod: Pod) -> None:
    await pod.clone()
    head = commit(pod.work)

    finished = await pod.push()

    assert (finished.report.pushed, finished.report.error) == (True, None)
    assert finished.report.head_sha == head == git(pod.origin, "rev-parse", "fix")
    assert git(pod.origin, "log", "--format=%s", "fix") == "file\nsecond\nfirst"


async def test_only_what_is_new_travels(pod: Pod) -> None:
    git(pod.origin.parent, "clone", "-q", str(pod.origin), "draft")
    (pod.origin.parent / "draft" / "large").write_bytes(os.urandom(500_000))
    commit(pod.origin.parent / "draft", "large")
    git(pod.origin.parent / "draft", "push", "-q", str(pod.origin), "HEAD:main")
    await pod.clone()
    commit(pod.work)
    pod.serve(pack_bytes=20_000)

    finished = await pod.end(await PushConnection.make(pod.handover, pod.stop))

    assert finished.report.error is None


async def test_nothing_is_left_behind_on_either_side(pod: Pod) -> None:
    await pod.clone()
    commit(pod.work)
    connection = await pod.connected()
    await pod.end(connection)
    await pod._serving[0]

    assert list(pod.spill.iterdir()) == []
    assert sorted(path.name for path in pod.private.iterdir()) == ["connected", "objects"]
    assert list(pod.handover.iterdir()) == []


async def test_a_repository_of_one_commit_is_pushed_to(pod: Pod) -> None:
    await pod.clone(ref="v1")
    commit(pod.work)

    assert (await pod.push()).report.error is None


async def test_history_that_the_agent_fetched_besides_is_pushed_too(pod: Pod) -> None:
    await pod.clone()
    git(pod.work, "fetch", "-q", "--unshallow", "origin", "main")
    git(pod.work, "fetch", "-q", "origin", "topic")
    git(pod.work, "checkout", "-q", "-b", "aside", "FETCH_HEAD~2")
    commit(pod.work, "aside")
    git(pod.work, "checkout", "-q", "fix")
    git(pod.work, "merge", "-q", "--no-ff", "-m", "merge", "aside")

    finished = await pod.push()

    assert finished.report.error is None
    assert git(pod.origin, "rev-list", "--count", "fix") == "4"


async def test_a_branch_that_the_agent_fetched_without_its_history_is_merged(pod: Pod) -> None:
    await pod.clone()
    git(pod.work, "fetch", "-q", "--depth=1", pod.origin.as_uri(), "topic")
    git(pod.work, "merge", "-q", "--allow-unrelated-histories", "-m", "merge", "FETCH_HEAD")

    finished = await pod.push()

    assert finished.report.error is None
    assert git(pod.origin, "log", "-1", "--format=%s", "fix") == "merge"


async def test_an_agent_that_threw_the_beginning_away_still_has_its_work_pushed(pod: Pod) -> None:
    await pod.clone()
    git(pod.work, "checkout", "-q", "--orphan", "anew")
    head = commit(pod.work, "anew")
    git(pod.work, "branch", "-q", "-D", "fix")
    git(pod.work, "update-ref", "-d", "refs/remotes/origin/main")
    git(pod.work, "reflog", "expire", "--expire=all", "--all")
    (pod.work / ".git" / "FETCH_HEAD").unlink()
    git(pod.work, "gc", "-q", "--prune=now")

    finished = await pod.push()

    assert finished.report.error is None
    assert git(pod.origin, "rev-parse", "fix") == head


async def test_a_branch_that_went_on_meanwhile_is_not_overwritten(pod: Pod) -> None:
    await pod.clone(branch="main")
    commit(pod.work)
    git(pod.origin.parent, "clone", "-q", str(pod.origin), "colleague")
    theirs = commit(pod.origin.parent / "colleague", "meanwhile")
    git(pod.origin.parent / "colleague", "push", "-q", str(pod.origin), "main")

    report = (await pod.push()).report

    why = f"the work was not pushed: git push: failed to push some refs to '{pod.origin.as_uri()}'"
    assert (report.error or "").startswith(why)
    assert not report.pushed
    assert git(pod.origin, "rev-parse", "main") == theirs


async def test_history_that_the_agent_rewrote_is_not_forced(pod: Pod) -> None:
    before = git(pod.origin, "rev-parse", "topic")
    await pod.clone(branch="topic")
    git(pod.work, "commit", "-q", "--amend", "-m", "rewritten")

    assert "rejected" in ((await pod.push()).report.error or "")
    assert git(pod.origin, "rev-parse", "topic") == before


async def test_nobody_connects_after_the_first(pod: Pod) -> None:
    await pod.clone()
    connection = await pod.connected()

    with pytest.raises(WorkspaceError, match="git-push does not answer"):
        await PushConnection.make(pod.handover, pod.stop, seconds=0.1)

    connection.close()


async def test_whoever_connects_at_the_same_moment_is_hung_up_on(pod: Pod) -> None:
    await pod.clone()
    pod.serve()
    await eventually(lambda: (pod.handover / SOCKET).exists())
    with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
        for one in (first, second):  # Before the server has had time to accept either.
            one.connect(str(pod.handover / SOCKET))
            one.setblocking(False)
        loop = asyncio.get_running_loop()
        assert await loop.sock_recv(first, 100) == b"ready\n"
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(second, 100)


async def test_one_that_is_started_again_listens_to_nobody(pod: Pod) -> None:
    await pod.clone()
    connection = await pod.connected()
    connection.close()
    await pod._serving[0]

    await pod.serve()

    assert not (pod.handover / SOCKET).exists()


async def test_one_that_was_started_again_before_anybody_came_still_waits(pod: Pod) -> None:
    await pod.clone()
    first = pod.serve()
    await eventually(lambda: (pod.handover / SOCKET).exists())
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    commit(pod.work)

    assert (await pod.push()).report.error is None


@pytest.mark.parametrize(
    "more",
    [{"branch": "main"}, {"ref": "refs/heads/main"}, {"force": True}, {"delete": "main"}],
    ids=lambda more: next(iter(more)),
)
async def test_another_branch_or_force_cannot_even_be_asked_for(
    pod: Pod, more: dict[str, object]
) -> None:
    await pod.clone()
    head, before = commit(pod.work), pod.refs()
    pack = packed(pod.work, head)

    error = await pod.say(request(head, len(pack), **more) + pack)

    assert "Extra inputs are not permitted" in (error or "")
    assert pod.refs() == before


@pytest.mark.parametrize(
    "head", [ZEROS, "refs/heads/topic", "", "+HEAD", "HEAD:refs/heads/main", f"{ZEROS}:main"]
)
async def test_what_is_no_commit_is_no_head(pod: Pod, head: str) -> None:
    await pod.clone()
    before = pod.refs()
    pack = packed(pod.work, commit(pod.work))

    assert await pod.say(request(head, len(pack)) + pack)
    assert pod.refs() == before


async def test_a_file_is_no_head(pod: Pod) -> None:
    await pod.clone()
    pack, before = packed(pod.work, commit(pod.work)), pod.refs()
    file = git(pod.work, "rev-parse", "HEAD:file")

    error = await pod.say(request(file, len(pack)) + pack)

    assert error == f"git push: {file} is no commit but a blob"
    assert pod.refs() == before


async def test_more_than_is_allowed_is_refused_before_it_is_read(pod: Pod) -> None:
    await pod.clone()
    error = await pod.say(request("a" * 40, PACK_BYTES + 1) + b"x" * 100_000)

    assert f"{PACK_BYTES} is the most" in (error or "")
    assert sorted(path.name for path in pod.private.iterdir()) == ["connected", "objects"]


async def test_a_worker_that_has_too_much_is_told_so(pod: Pod) -> None:
    await pod.clone()
    (pod.work / "large").write_bytes(os.urandom(3_000_000))
    git(pod.work, "add", "large")
    git(pod.work, "commit", "-qm", "large")
    pod.serve(pack_bytes=1_000_000)

    report = (await pod.end(await PushConnection.make(pod.handover, pod.stop))).report

    assert "1000000 is the most: commit fewer or smaller files" in (report.error or "")
    assert report.head_sha == git(pod.work, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"junk\n",
        b"\xff\x00\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b"x" * 3_000_000,
        b"{}\n",
        request("a" * 40, -1),
        request("a" * 40, 5, shallow=["--upload-pack"]),
        request("a" * 40, 5, shallow=["b" * 40] * 2001),
    ],
    ids=[*("empty", "word", "bytes", "null", "deep", "endless"), *"abcd"],
)
async def test_junk_instead_of_a_request_is_refused(pod: Pod, data: bytes) -> None:
    await pod.clone()
    before = pod.refs()
    assert "git push: the request is none" in (await pod.say(data) or "")
    assert pod.refs() == before


async def test_junk_instead_of_a_pack_is_refused(pod: Pod) -> None:
    await pod.clone()
    before, junk = pod.refs(), os.urandom(300_000)

    error = await pod.say(request("a" * 40, len(junk)) + junk)

    assert (error or "").startswith("git index-pack: ")
    assert pod.refs() == before


async def test_a_pack_that_ends_too_early_is_nothing(pod: Pod) -> None:
    await pod.clone()
    head, before = commit(pod.work), pod.refs()
    pack = packed(pod.work, head)
    serving = pod.serve()
    await eventually(lambda: (pod.handover / SOCKET).exists())
    _, writer = await asyncio.open_unix_connection(str(pod.handover / SOCKET))
    writer.write(request(head, len(pack)) + pack[:-1])
    await writer.drain()
    writer.close()

    await asyncio.wait_for(serving, 30)

    assert pod.refs() == before
    assert sorted(path.name for path in pod.private.iterdir()) == ["connected", "objects"]


async def test_a_worker_that_goes_ends_the_push(pod: Pod) -> None:
    await pod.clone()
    head, before = commit(pod.work), pod.refs()
    pack = packed(pod.work, head)
    hook = pod.origin / "hooks" / "pre-receive"  # The server's own: it takes its time.
    hook.write_text(f"#!/bin/sh\ntouch {pod.origin}/began\nexec tail -f /dev/null\n")
    hook.chmod(0o755)
    serving = pod.serve()
    await eventually(lambda: (pod.handover / SOCKET).exists())
    _, writer = await asyncio.open_unix_connection(str(pod.handover / SOCKET))
    writer.write(request(head, len(pack), shallow=[str(pod.prepared.base_sha)]) + pack)
    await eventually(lambda: (pod.origin / "began").exists())

    writer.close()
    await asyncio.wait_for(serving, 30)

    assert pod.refs() == before


async def test_a_stop_ends_the_wait_for_the_push(pod: Pod) -> None:
    await pod.clone()
    commit(pod.work)
    connection = await pod.connected()
    pod.stop.set("terminated")

    assert "stopped" in ((await pod.end(connection)).report.error or "")


async def test_one_that_dies_is_an_error_of_its_task(pod: Pod) -> None:
    await pod.clone()
    commit(pod.work)
    serving = pod.serve()
    connection = await PushConnection.make(pod.handover, pod.stop)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    error = (await pod.end(connection)).report.error or ""

    assert "the container git-push has ended" in error
    assert "memory" in error


async def test_what_git_says_of_the_credential_is_not_repeated(pod: Pod) -> None:
    await pod.clone()
    head, pack = commit(pod.work), packed(pod.work, "HEAD")

    elsewhere = GitWorkspace(url="file:///hunter2secret")
    error = await pod.say(request(head, len(pack)) + pack, wanted=elsewhere)

    assert error is not None
    assert "[redacted]" in error
    assert "hunter2secret" not in error


async def test_nothing_that_the_agent_configured_reaches_the_push(pod: Pod, tmp_path: Path) -> None:
    await pod.clone()
    head = commit(pod.work)
    evil, elsewhere = tmp_path / "evil", tmp_path / "elsewhere.git"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    git(tmp_path, "init", "-q", "--bare", str(elsewhere))
    hooks = pod.work / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("pre-push", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (hooks / hook).symlink_to(evil)
    for key, value in {
        "core.fsmonitor": str(evil),
        "core.sshCommand": str(evil),
        "core.hooksPath": str(hooks),
        "core.gitProxy": str(evil),
        "credential.helper": f"!{evil}",
        "filter.evil.clean": str(evil),
        "gpg.program": str(evil),
        "push.gpgSign": "true",
        "remote.origin.url": elsewhere.as_uri(),
        "remote.origin.receivepack": str(evil),
        "uploadpack.packObjectsHook": str(evil),
        "pack.packSizeLimit": "1",
        f"url.{elsewhere.as_uri()}.insteadOf": pod.origin.as_uri(),
        f"url.{elsewhere.as_uri()}.pushInsteadOf": pod.origin.as_uri(),
    }.items():
        git(pod.work, "config", key, value)
    (pod.work / ".gitattributes").write_text("* filter=evil\n")
    (pod.work / ".gitmodules").write_text('[submodule "x"]\npath = x\nurl = ext::sh -c evil\n')

    finished = await pod.push()

    assert not (tmp_path / "ran").exists()
    assert finished.report.error is None
    assert git(pod.origin, "rev-parse", "fix") == head
    assert git(elsewhere, "for-each-ref") == ""


async def moved_on(pod: Pod, tmp_path: Path) -> str:
    """The branch that the work began with has a commit more, and this pod's clone only that."""
    await pod.clone()
    base = pod.prepared.base_sha
    assert base is not None
    git(tmp_path, "clone", "-q", str(pod.origin), "other")
    commit(tmp_path / "other", "meanwhile")
    git(tmp_path / "other", "push", "-q", "origin", "main")
    for directory in (pod.work, pod.private / "objects"):
        shutil.rmtree(directory)
    await pod.clone()
    assert pod.prepared.base_sha != base
    return base


async def test_the_commit_that_the_work_began_with_is_fetched_for_a_worker_that_goes_on(
    pod: Pod, tmp_path: Path
) -> None:
    base = await moved_on(pod, tmp_path)
    connection = await pod.connected()
    runs = Git(pod.environ, pod.spill, 60, pod.stop)

    pod.prepared = await restore(runs, None, pod.work, pod.prepared, base, fetch=connection.fetch)
    assert git(pod.work, "rev-parse", "HEAD") == base == pod.prepared.base_sha
    assert not (pod.work / "meanwhile").exists()

    head = commit(pod.work, "mine")
    finished = await pod.end(connection)
    assert finished.report.error is None
    assert git(pod.origin, "rev-parse", "fix") == head
    assert git(pod.origin, "rev-parse", "fix^") == base


async def test_a_commit_that_is_not_to_be_had_costs_no_push(pod: Pod, tmp_path: Path) -> None:
    await moved_on(pod, tmp_path)
    connection = await pod.connected()
    runs = Git(pod.environ, pod.spill, 60, pod.stop)

    with pytest.raises(BaseGoneError, match="cannot be had"):
        await restore(runs, None, pod.work, pod.prepared, "d" * 40, fetch=connection.fetch)

    head = commit(pod.work, "mine")
    assert (await pod.end(connection)).report.pushed
    assert git(pod.origin, "rev-parse", "fix") == head


async def test_one_commit_is_given_and_no_other(pod: Pod) -> None:
    await pod.clone()
    asked = json.dumps({"fetch": pod.prepared.base_sha}).encode() + b"\n"
    pod.serve()
    await eventually(lambda: (pod.handover / SOCKET).exists())
    reader, writer = await asyncio.open_unix_connection(str(pod.handover / SOCKET))
    assert await reader.readline() == b"ready\n"
    writer.write(asked)
    await reader.readexactly(json.loads(await reader.readline())["size"])
    writer.write(asked)
    assert "already" in json.loads(await reader.readline())["error"]
    assert await reader.read() == b""
    writer.close()
