"""The agent's workspace: a directory, or a repository cloned into it and looked at afterwards.

developer.py calls `prepare` before the turn and, when that was a success, `finish` after it. In
between the repository is the agent's. Its configuration may by then name programs to run, so that
`finish` looks at the files through a repository of its own (git.py): no hook, filter, helper or
rewritten URL takes effect.
"""

import asyncio
import io
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from worker_wrapper.process import below
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.git import Git, GitError, push
from worker_wrapper.workspace.repository import (
    Start,
    WorkspaceError,
    check,
    choose_start,
    patterns,
    read_remote,
)

__all__ = ["Finished", "WorkspaceError", "finish", "prepare"]

GIT_SECONDS = 600.0
"""How long one git command may take; the clone is the long one."""
_OURS = Path(".git", "worker-wrapper")
"""Marks a clone of ours, which a restarted worker may replace."""
_NAMED_FILES = 5
_INDEX_BYTES = 64 * 1024 * 1024
"""An index has some hundred bytes a file; of half a million files it is as large as this."""

Push = Callable[[Git, Path, str, str | None], Awaitable[None]]
"""Pushes a commit of a repository of ours to the task's branch; given what it began with, too."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of the workspace, and what a person should know about it."""

    report: WorkspaceReport
    warnings: list[str] = field(default_factory=list)


async def prepare(
    workspace: Workspace | None,
    directory: Path,
    credentials_dir: Path | None,
    *,
    environ: Mapping[str, str],
    spill_dir: Path,
    stop: StopTurn,
    timeout_seconds: float = GIT_SECONDS,
) -> WorkspaceReport:
    """Make the directory, and clone the repository into it if there is one.

    Args:
        workspace: What the task wants.
        directory: Where; must be empty for a clone.
        credentials_dir: The mounted Secret: `username` and `password` or `token`, or
            `ssh-privatekey` and `known_hosts`.
        environ: Our environment.
        spill_dir: For temporary files.
        stop: Ends a clone early when set.
        timeout_seconds: For each git command.

    Returns:
        The commit and branch the work begins with.

    Raises:
        WorkspaceError: It cannot be had.
    """
    git = Git(environ, spill_dir, timeout_seconds, stop)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if workspace is None or workspace.git is None:
            return WorkspaceReport()
        check(workspace.git)
        # Beside the event loop: the lease is renewed there, and there may be a million files.
        await asyncio.to_thread(_make_empty, directory)
        with git.credentials(workspace.git.url, credentials_dir) as env:
            start = await _clone(git, workspace.git, directory, env)
        base = await git("rev-parse", "--verify", "HEAD", workdir=directory)
    except GitError as error:
        raise WorkspaceError(str(error)) from None
    except OSError as error:
        raise WorkspaceError(f"{error.filename or directory}: {error.strerror}") from None
    return WorkspaceReport(base_sha=base.strip(), head_sha=base.strip(), branch=start.branch)


async def finish(
    workspace: Workspace | None,
    directory: Path,
    credentials_dir: Path | None,
    *,
    prepared: WorkspaceReport,
    environ: Mapping[str, str],
    spill_dir: Path,
    stop: StopTurn,
    timeout_seconds: float = GIT_SECONDS,
    push_with: Push | None = None,
) -> Finished:
    """After a success: see what the agent committed, and push it if the task wants that.

    Args:
        workspace: What the task wants.
        directory: Where the work was done.
        credentials_dir: As for `prepare`.
        prepared: What `prepare` returned.
        environ: Our environment.
        spill_dir: For temporary files.
        stop: Ends a push early when set.
        timeout_seconds: For each git command.
        push_with: Pushes in our place, where the credential is somewhere else.

    Returns:
        The report; `error` says why the work was not pushed although it should be.
    """
    if workspace is None or workspace.git is None:
        return Finished(prepared)
    git = Git(environ, spill_dir, timeout_seconds, stop)
    mirror: Path | None = None
    report, warnings = prepared, []
    try:
        mirror = Path(tempfile.mkdtemp(prefix="repository-", dir=spill_dir))
        head = await mirrored(git, directory, mirror)
        report = report.model_copy(update={"head_sha": head})
        warnings = _uncommitted(await _status(git, directory, mirror))
        if workspace.git.push == "Always" and head != prepared.base_sha:
            if push_with:
                await push_with(git, mirror, head, prepared.base_sha)
            else:
                where = (workspace.git.url, head, str(prepared.branch), credentials_dir)
                await push(git, mirror, *where)
            report = report.model_copy(update={"pushed": True})
    except (GitError, OSError) as error:
        if workspace.git.push == "Always":
            report = report.model_copy(update={"error": f"the work was not pushed: {error}"})
        else:
            warnings = [*warnings, f"the workspace could not be read: {error}"]
    finally:
        if mirror:
            shutil.rmtree(mirror, ignore_errors=True)
    return Finished(report, warnings)


def unfinished(workspace: Workspace | None, prepared: WorkspaceReport) -> Finished:
    """What is said of the workspace of a turn that was no success: its work is not looked at."""
    if workspace is None or workspace.git is None or workspace.git.push != "Always":
        return Finished(prepared)
    return Finished(prepared, ["nothing was pushed: the agent has not succeeded"])


def _make_empty(directory: Path) -> None:
    entries = [entry for entry in directory.iterdir() if entry.name != "lost+found"]
    if entries and not (directory / _OURS).exists():
        raise WorkspaceError(
            f"{directory} is not empty ({entries[0].name} …): a clone needs an empty directory; "
            "clear it, or name another one in WORKSPACE_DIR"
        )
    # The mark goes last: who is killed here is followed by one who knows it by that.
    inner, mark = _OURS.parts
    for entry in entries:
        if entry.name != inner:
            below.remove(directory, (entry.name,))
    with suppress(OSError):
        for entry in (directory / inner).iterdir():
            if entry.name != mark:
                below.remove(directory, (inner, entry.name))
    below.remove(directory, (inner,))


async def _clone(git: Git, wanted: GitWorkspace, directory: Path, env: Mapping[str, str]) -> Start:
    """Fetch one commit and check it out. Nothing in the repository is the agent's yet."""
    await git("init", "-q", "--template=", "--initial-branch=main", ".", workdir=directory)
    (directory / _OURS).touch()
    await git("remote", "add", "origin", wanted.url, workdir=directory)
    listing = await git(
        "ls-remote", "--symref", "origin", *patterns(wanted), workdir=directory, env=env
    )
    start = choose_start(wanted, read_remote(listing))
    local = start.wanted.replace("refs/heads/", "refs/remotes/origin/", 1)
    refs = f"+{start.wanted}:{local}" if local.startswith("refs/") else start.wanted
    await git("fetch", "-q", "--depth=1", "--no-tags", "origin", refs, workdir=directory, env=env)
    where = ("--no-track", "-B", start.branch) if start.branch else ("--detach",)
    await git("checkout", "-q", *where, "FETCH_HEAD", workdir=directory)
    return start


async def mirrored(git: Git, directory: Path, mirror: Path) -> str:
    """Make an empty repository see the agent's commits and index; return its HEAD.

    Only the commit's name is asked of the agent's repository itself, which runs nothing.
    """
    theirs = directory / ".git"
    head = (await git("rev-parse", "HEAD", at=[f"--git-dir={theirs}"], workdir=mirror)).strip()
    await git("init", "-q", "--bare", "--template=", ".", workdir=mirror)
    objects = f"{theirs / 'objects'}\n".encode()
    await asyncio.to_thread(put, mirror, ("objects", "info", "alternates"), objects)
    for name in ("shallow", "index"):
        await asyncio.to_thread(_copied, directory, name, mirror)
    await git("update-ref", "--no-deref", "HEAD", head, workdir=mirror)
    return head


def put(mirror: Path, parts: tuple[str, ...], data: bytes) -> None:
    """Write a file of a repository of ours beside an agent that may plant a FIFO in its place."""
    below.write(mirror, parts, io.BytesIO(data), 0o600, time.time())


def _copied(directory: Path, name: str, mirror: Path) -> None:
    """Copy a file of the agent's repository, if it is one and of a size that git makes.

    No link is followed: it could lead to what we alone may read, and the agent reads the copy. It
    keeps its time: of a file that is as old as its index git looks at the content, and of an older
    one it believes size and time.

    Raises:
        GitError: It is larger, or grows while it is copied.
    """
    try:
        file = below.opened(directory, (".git", name))
    except OSError:
        return
    with file:
        at = os.fstat(file.fileno()).st_mtime_ns
        data = file.read(_INDEX_BYTES + 1)
    if len(data) > _INDEX_BYTES:
        raise GitError(f".git/{name} is larger than {_INDEX_BYTES} bytes")
    put(mirror, (name,), data)
    os.utime(mirror / name, ns=(at, at))


async def _status(git: Git, directory: Path, mirror: Path) -> list[str]:
    listing = ""
    with suppress(GitError):  # An index of the agent's making may be unreadable; that is no harm.
        listing = await git(
            *("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all"),
            at=[f"--git-dir={mirror}", f"--work-tree={directory}", "-c", "core.bare=false"],
            workdir=mirror,
        )
    return [entry[3:] for entry in listing.split("\0") if entry]


def _uncommitted(files: list[str]) -> list[str]:
    if not files:
        return []
    named = ", ".join(files[:_NAMED_FILES]) + (", …" if len(files) > _NAMED_FILES else "")
    return [f"the agent left {len(files)} uncommitted changes: {named}"]
