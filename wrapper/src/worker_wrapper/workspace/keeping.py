"""A workspace as it is kept in a checkpoint, and as the next pod finds it.

Of a repository what differs from the commit it began with: the agent's commits, and every file that
is not as its HEAD has it, tracked or not, but for ignored ones. Of any other directory all of it.
The agent's repository is looked at through one of ours (workspace.py), so that nothing that its
configuration names is run; what is restored is written into a clone that no agent has seen yet.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orbiter_contracts import WorkspaceReport
from orbiter_contracts.checkpoints import CheckpointedWorkspace
from worker_wrapper.process import below
from worker_wrapper.workspace import contents, history, packing
from worker_wrapper.workspace.contents import Contents, Parts, Repository
from worker_wrapper.workspace.fetching import Fetch
from worker_wrapper.workspace.git import Git, GitError
from worker_wrapper.workspace.handover import lines, read_shallow
from worker_wrapper.workspace.packing import TooLargeError
from worker_wrapper.workspace.repository import WorkspaceError
from worker_wrapper.workspace.workspace import mirrored

_STATUS: Final = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all", "-uall")


class BaseGoneError(WorkspaceError):
    """The commit that the work began with is not to be had any more; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checkpoint has of a workspace: the compressed piece, and what it says of it."""

    state: CheckpointedWorkspace
    data: bytes = b""
    why: str = ""


async def keep(git: Git, directory: Path, prepared: WorkspaceReport | None, *, limit: int) -> Kept:
    """Compress what differs.

    Args:
        git: Runs git.
        directory: The workspace.
        prepared: What the work began with; None for a workspace without git.
        limit: The largest size in bytes.

    Raises:
        GitError: The repository cannot be looked at.
        OSError: Nor can its files be.
    """
    try:
        if prepared is None or prepared.base_sha is None:
            files = await asyncio.to_thread(lambda: _bounded(packing.every_file(directory)))
            if not files:
                return Kept("Unchanged")
            return Kept("Stored", await _packed(directory, files, limit))
        return await _keep_repository(git, directory, prepared.base_sha, limit)
    except TooLargeError as error:
        return Kept("TooLarge", why=str(error))


async def restore(
    git: Git,
    kept: Contents | None,
    directory: Path,
    prepared: WorkspaceReport,
    base: str | None,
    *,
    fetch: Fetch | None = None,
) -> WorkspaceReport:
    """Make a prepared workspace what it was.

    Args:
        git: Runs git.
        kept: What was kept; None when nothing differed.
        directory: The workspace, as `prepare` has left it.
        prepared: What that said.
        base: The commit that the work began with in the first pod.
        fetch: Fetches that commit, where the branch has left it; None: nobody can.

    Returns:
        What the work began with, and not where this pod's clone happened to be.

    Raises:
        BaseGoneError: The commit it began with cannot be had; it is as `prepare` has left it.
        WorkspaceError: It cannot be what it was.
    """
    about = kept.repository if kept else None
    try:
        if prepared.base_sha is not None and base is not None:
            prepared = await _go_to(git, directory, prepared, base, fetch)
        if kept is None:
            return prepared
        if (about is None) != (prepared.base_sha is None):
            raise WorkspaceError("what was kept of the workspace is of another kind")
        if about is not None:
            await _checkout(git, kept, about, directory)
        await asyncio.to_thread(contents.write, kept, directory)
    except (GitError, OSError, contents.UnreadableError) as error:
        raise WorkspaceError(f"the workspace cannot be what it was: {error}") from None
    return prepared


async def _keep_repository(git: Git, directory: Path, base: str, limit: int) -> Kept:
    with tempfile.TemporaryDirectory(
        dir=git.spill_dir, prefix="checkpoint-", ignore_cleanup_errors=True
    ) as scratch:
        mirror = Path(scratch, "repository")
        mirror.mkdir()
        head = await mirrored(git, directory, mirror)
        listing = await git(
            *_STATUS,
            at=[f"--git-dir={mirror}", f"--work-tree={directory}", "-c", "core.bare=false"],
            workdir=mirror,
        )
        names = [entry[3:] for entry in listing.split("\0") if entry]
        branch = await history.branch(git, directory, mirror)
        refs = await history.other_refs(git, directory, mirror, branch)
        if head == base and not names and not refs:
            return Kept("Unchanged")
        heads = sorted({head, *refs.values()})
        commits: Path | None = None
        ends: list[str] = []
        if heads != [base]:
            commits, ends = await history.pack(git, mirror, heads, base, Path(scratch))
            if commits.stat().st_size > limit:
                raise TooLargeError(f"commits of more than {limit} bytes")
        files, deleted = await asyncio.to_thread(_present, directory, names)
        about = Repository(
            base=base, head=head, branch=branch, refs=refs, shallow=ends, deleted=deleted
        )
        return Kept("Stored", await _packed(directory, files, limit, about, commits))


async def _packed(
    directory: Path,
    files: list[Parts],
    limit: int,
    about: Repository | None = None,
    commits: Path | None = None,
) -> bytes:
    return await asyncio.to_thread(
        packing.pack, directory, files, limit=limit, about=about, commits=commits
    )


def _present(directory: Path, names: list[str]) -> tuple[list[Parts], list[str]]:
    """Which of the files are there, those of repositories within too, and which are not."""
    files: list[Parts] = []
    deleted = []
    for name in names:
        if not contents.is_path(name, git=True):
            continue  # The agent's index may name anything, what is outside too.
        parts = tuple(name.rstrip("/").split("/"))
        if len(parts) > contents.DEPTH:
            raise TooLargeError(f"directories nested deeper than {contents.DEPTH}")
        if below.status(directory, parts) is None:
            deleted.append(os.fsencode(name).decode("latin-1"))
        else:
            files.append(parts)
        if name.endswith("/"):  # Another repository: git looks no further.
            files += _bounded(packing.every_file(directory, parts))
        if len(files) + len(deleted) > contents.FILES:
            raise TooLargeError(f"more than {contents.FILES} files")
    return files, deleted


def _bounded(found: Iterator[Parts]) -> list[Parts]:
    files = []
    for parts in found:
        files.append(parts)
        if len(files) > contents.FILES:
            raise TooLargeError(f"more than {contents.FILES} files")
    return files


async def _go_to(
    git: Git,
    directory: Path,
    prepared: WorkspaceReport,
    base: str,
    fetch: Fetch | None,
) -> WorkspaceReport:
    """Be at the commit that the work began with, which the branch may have left meanwhile."""
    if prepared.base_sha == base:
        return prepared
    try:
        await git("cat-file", "-e", f"{base}^{{commit}}", workdir=directory)
    except GitError as error:
        if fetch is None:
            raise BaseGoneError(f"the commit {base} is not in the clone") from error
        try:
            await fetch(git, directory, base)
        except GitError as gone:
            raise BaseGoneError(f"the commit {base} cannot be had: {gone}") from None
    where = ("--no-track", "-B", prepared.branch) if prepared.branch else ("--detach",)
    await git("checkout", "-q", *where, base, workdir=directory)
    return prepared.model_copy(update={"base_sha": base})


async def _checkout(git: Git, kept: Contents, about: Repository, directory: Path) -> None:
    """Have the agent's commits, and be at its last one."""
    refs = history.refs_of(about)
    with tempfile.TemporaryDirectory(dir=git.spill_dir, prefix="checkpoint-") as scratch:
        pack = await asyncio.to_thread(contents.commits, kept, Path(scratch))
        if pack is not None:
            data = await asyncio.to_thread(pack.read_bytes)
            await git("index-pack", "--stdin", workdir=directory, stdin=data)
    if about.shallow:
        inner = directory / ".git"
        ends = sorted({*read_shallow(inner), *about.shallow})
        (inner / "shallow").write_text(lines(ends))
    await git("checkout", "-q", "-f", "--detach", about.head, workdir=directory)
    await history.put_back(git, directory, refs, about.branch)
