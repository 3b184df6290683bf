"""What of a repository's history a checkpoint has, and how the next pod's clone is given it.

An agent's commits are on the branch that it is on, on others, and in what it has stashed. The next
pod's clone is of one commit; what an agent has fetched beside that is kept no further than its own
commits stand on it.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker_wrapper.workspace.contents import Repository
from worker_wrapper.workspace.git import Git, GitError, packed
from worker_wrapper.workspace.handover import lines, read_shallow
from worker_wrapper.workspace.packing import TooLargeError
from worker_wrapper.workspace.repository import is_ref
from worker_wrapper.workspace.workspace import put

COMMITTED_BYTES: Final = 64 * 1024 * 1024
"""How large the objects of commits may be that are packed, to see how small they become."""
_REFS: Final = 1000
"""How many branches are kept, beside the one that the agent is on."""
_HEADS, _STASH = "refs/heads/", "refs/stash"


async def branch(git: Git, directory: Path, mirror: Path) -> str | None:
    """The branch that the agent is on, if it is on one that is kept."""
    at = [f"--git-dir={directory / '.git'}"]
    try:
        ref = (await git("symbolic-ref", "-q", "HEAD", at=at, workdir=mirror)).strip()
    except GitError:
        return None
    return ref.removeprefix(_HEADS) if ref != _STASH and _is_ours(ref) else None


async def other_refs(
    git: Git, directory: Path, mirror: Path, current: str | None
) -> dict[str, str]:
    """The agent's branches, but for the one it is on, and the latest that it has stashed.

    The agent's repository is asked for names alone: what reads an object may fetch it, as the
    agent's configuration says how. Those whose commits are missing are left out.

    Raises:
        GitError: The repository cannot be looked at.
        TooLargeError: They are too many.
    """
    what = ("--format=%(objectname) %(refname)", _HEADS, _STASH)
    at = [f"--git-dir={directory / '.git'}"]
    listing = await git("for-each-ref", *what, at=at, workdir=mirror)
    found = {}
    for line in listing.splitlines():
        commit, _, name = line.partition(" ")
        if name != f"{_HEADS}{current}" and _is_ours(name):
            found[name] = commit
    if len(found) > _REFS:
        raise TooLargeError(f"more than {_REFS} branches")
    asked = "".join(f"{commit}\n" for commit in found.values()).encode()
    how = ("--batch-check=%(objecttype) %(objectname)",)
    kinds = set((await git("cat-file", *how, workdir=mirror, stdin=asked)).splitlines())
    return {name: commit for name, commit in found.items() if f"commit {commit}" in kinds}


async def pack(
    git: Git, mirror: Path, heads: list[str], base: str, scratch: Path
) -> tuple[Path, list[str]]:
    """Pack commits, and what they stand on; return the pack, and where their history ends.

    Args:
        git: Runs git.
        mirror: A repository of ours that sees the agent's.
        heads: The commits.
        base: What the next pod's clone has.
        scratch: Where to.

    Raises:
        GitError: They cannot be packed.
        TooLargeError: Nor are they worth a try.
    """
    ends = await _cut_off(git, mirror, heads, base)
    new = ("--objects", "--disk-usage", "--ignore-missing", *heads, f"^{base}")
    if int(await git("rev-list", *new, workdir=mirror)) > COMMITTED_BYTES:
        raise TooLargeError(f"commits of more than {COMMITTED_BYTES} bytes")
    return await packed(git, mirror, heads, base, scratch), ends


def refs_of(about: Repository) -> dict[str, str]:
    """All refs of a repository as it was kept, by full names.

    Raises:
        GitError: A name is none that is kept.
    """
    current = {f"{_HEADS}{about.branch}": about.head} if about.branch is not None else {}
    refs = {**about.refs, **current}
    for name in refs:
        if not _is_ours(name):
            raise GitError(f"{name!r} is not a name git allows")
    return refs


async def put_back(git: Git, directory: Path, refs: dict[str, str], current: str | None) -> None:
    """Give a clone that is on no branch these in the place of its own, and be on one of them.

    Raises:
        GitError: A commit is not there.
    """
    # Its own go first: `work` would be in the way of `work/again`.
    cloned = await git("for-each-ref", "--format=delete %(refname)", _HEADS, workdir=directory)
    await git("update-ref", "--stdin", workdir=directory, stdin=cloned.encode())
    words = "".join(f"create {name} {commit}\n" for name, commit in refs.items())
    # `git stash` finds what is in the log of its ref.
    await git("update-ref", "--stdin", "--create-reflog", workdir=directory, stdin=words.encode())
    if current is not None:
        await git("symbolic-ref", "HEAD", f"{_HEADS}{current}", workdir=directory)


async def _cut_off(git: Git, mirror: Path, heads: list[str], base: str) -> list[str]:
    """End the history where the next pod's clone has no more of it; return its last commits.

    That clone is of one commit. An agent may have fetched older ones, or others whose parents it
    has not: of these only what its own commits stand on is kept, without what was before.
    """
    ends = set(read_shallow(mirror))
    with suppress(GitError):  # Agents may throw away what the work began with.
        listed = await git("rev-list", "--boundary", *heads, f"^{base}", workdir=mirror)
        own = set(listed.split())
        ends |= {commit[1:] for commit in own if commit.startswith("-")}
        ends |= {base, *heads} - own
    await asyncio.to_thread(put, mirror, ("shallow",), lines(sorted(ends)).encode())
    last = await git("rev-list", "--max-parents=0", *heads, workdir=mirror)
    return sorted(ends.intersection(last.split()))


def _is_ours(name: str) -> bool:
    """Whether a ref is one that is kept: its name may be bytes that are no text."""
    branch = name.removeprefix(_HEADS)
    return name == _STASH or (branch != name and name.isprintable() and is_ref(branch))
