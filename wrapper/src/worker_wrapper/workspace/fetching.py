"""One commit of a repository, which its branch may have left since; where it is asked for by name.

A checkpoint is what differs from the commit that the work began with, and a later pod's clone is of
one commit, the newest. Most servers give any commit that is asked for by its id.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from orbiter_contracts import GitWorkspace
from worker_wrapper.workspace.git import Git, GitError
from worker_wrapper.workspace.repository import (
    WorkspaceError,
    choose_start,
    patterns,
    read_remote,
)

DEEPER: Final = 1000
"""How many commits of the branch are fetched where the server gives only the heads of branches."""

Fetch = Callable[[Git, Path, str], Awaitable[None]]
"""Makes a repository have a commit, or raises `GitError`."""


def fetch_with(wanted: GitWorkspace, credentials: Path | None, *, at: Sequence[str] = ()) -> Fetch:
    """Fetches as who has the credential.

    Args:
        wanted: The repository.
        credentials: The mounted Secret.
        at: Options of git itself.
    """

    async def fetch(git: Git, directory: Path, commit: str) -> None:
        with git.credentials(wanted.url, credentials) as env:
            await _fetch_commit(git, wanted, directory, commit, env, at)

    return fetch


async def _fetch_commit(
    git: Git,
    wanted: GitWorkspace,
    directory: Path,
    commit: str,
    env: Mapping[str, str],
    at: Sequence[str],
) -> None:
    """Have a commit: by its id, else among the latest of the branch that the work begins with."""

    async def fetch(depth: int, what: str) -> None:
        options = ("-q", f"--depth={depth}", "--no-tags")
        # Kept as a pack, which is what can be handed on.
        kept = (*at, "-c", "fetch.unpackLimit=1")
        await git("fetch", *options, wanted.url, what, workdir=directory, env=env, at=kept)

    try:
        await fetch(1, commit)
    except GitError as refused:
        try:
            listing = await git(
                "ls-remote", "--symref", wanted.url, *patterns(wanted), workdir=directory, env=env
            )
            await fetch(DEEPER, choose_start(wanted, read_remote(listing)).wanted)
            await git("cat-file", "-e", f"{commit}^{{commit}}", workdir=directory)
        except (GitError, WorkspaceError):
            raise refused from None
