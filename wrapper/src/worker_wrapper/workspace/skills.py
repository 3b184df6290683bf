"""Skills that repositories have: fetched before an agent starts, and written down file by file.

Nothing is checked out. Files are read from git's objects and written by us, so no link is ever
made, no submodule fetched, and no filter, hook or attribute of the repository runs or is obeyed.
Who has written the repository may be a stranger: all of it is bounded before it is read.
"""

import asyncio
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from orbiter_contracts import GitWorkspace
from orbiter_contracts.skills import (
    MAX_FETCHED_BYTES,
    MAX_SKILL_BYTES,
    MAX_SKILL_DEPTH,
    MAX_SKILL_FILES,
    SKILL,
    GitSkill,
    is_inside,
)
from worker_wrapper.process import below
from worker_wrapper.workspace.git import Git, GitError
from worker_wrapper.workspace.repository import (
    WorkspaceError,
    check,
    choose_start,
    patterns,
    read_remote,
)

SECONDS: Final = 240.0
"""How long all of it may take: a server that says nothing holds no agent up for ever."""
PACK_BYTES: Final = 256 * 1024 * 1024
"""How large one commit of a repository may be, packed; the container's limit for any file."""
_FETCHING: Final = (
    *("-c", "fetch.unpackLimit=1"),  # one pack, so that the limit is one of all of it
    *("-c", "core.bigFileThreshold=16m"),  # what is larger is never in memory as a whole
)
_TREE_BYTES: Final = 16 * 1024 * 1024
_PLAIN, _RUNS, _TREE, _LINK, _MODULE = b"100644", b"100755", b"040000", b"120000", b"160000"
_FILES: Final = (_PLAIN, _RUNS, b"100664")  # the last is of old repositories
_NOT_TAKEN: Final = {_LINK: "a symbolic link", _MODULE: "a submodule"}
_LFS: Final = b"version https://git-lfs"
_ENDED: Final = ("index-pack", "File too large")
"""What git says when its own program for packs was ended, for instance by our limit."""
_SHOWN: Final = 120


class SkillsError(Exception):
    """A skill cannot be had; the text says which, why and what to do."""


class _Source(NamedTuple):
    """A commit of a repository, which several skills may be in."""

    url: str
    ref: str | None
    credentials: int | None


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    blob: bytes
    runs: bool


async def fetch(
    skills: Sequence[GitSkill],
    target: Path,
    credentials_dir: Path,
    git: Git,
    *,
    seconds: float = SECONDS,
) -> dict[str, str]:
    """Fetch skills into a directory, each into one of its name.

    Args:
        skills: Which; no two of one name.
        target: Where. What is there already, from a start before this one, is replaced.
        credentials_dir: Has each Secret under its number.
        git: Runs git.
        seconds: How long all of it may take.

    Returns:
        Of each skill the id of the commit that it is of.

    Raises:
        SkillsError: One cannot be had.
        OSError: It cannot be written.
    """
    for old in os.listdir(target):  # noqa: PTH208 - names, to be removed by them
        below.remove(target, (old,))
    sources = defaultdict[_Source, list[GitSkill]](list)
    for skill in skills:
        sources[_Source(skill.url, skill.ref, skill.credentials)].append(skill)
    commits: dict[str, str] = {}
    left, name = MAX_FETCHED_BYTES, ""
    try:
        async with asyncio.timeout(seconds):
            for source, several in sources.items():
                name = several[0].name
                with _emptied(git.spill_dir) as directory:
                    commit = await _fetched(git, source, directory, credentials_dir)
                    for skill in several:
                        name = skill.name
                        left -= await _taken(git, skill, commit, directory, target, left)
                        commits[name] = commit
    except TimeoutError:
        url = next(skill.url for skill in skills if skill.name == name)
        why = f"{url} took too long: more than {seconds:.0f} s"
        raise SkillsError(f"agent.skills[{name}]: {why}") from None
    except (GitError, WorkspaceError, ValueError) as error:
        why = str(error)
        if any(words in why for words in _ENDED):
            why = f"the commit is larger than {PACK_BYTES} bytes as git packs it, or damaged: {why}"
        raise SkillsError(f"agent.skills[{name}]: {why}") from None
    return commits


@contextmanager
def _emptied(spill_dir: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="skills-", dir=spill_dir))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _fetched(git: Git, source: _Source, directory: Path, credentials_dir: Path) -> str:
    """Fetch one commit into a repository of ours; return its id."""
    wanted = GitWorkspace(url=source.url, ref=source.ref)
    check(wanted, "git")
    secret = None if source.credentials is None else credentials_dir / str(source.credentials)
    await git("init", "-q", "--bare", "--template=", ".", workdir=directory)
    with git.credentials(source.url, secret) as env:
        asked = ("--symref", "--", source.url, *patterns(wanted))
        listing = await git("ls-remote", *asked, workdir=directory, env=env)
        start = choose_start(wanted, read_remote(listing))
        options = ("-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--")
        await git(
            *("fetch", *options, source.url, start.wanted),
            workdir=directory,
            at=_FETCHING,
            env=env,
        )
    commit = await git("rev-parse", "--verify", "FETCH_HEAD^{commit}", workdir=directory)
    return commit.strip()


async def _taken(
    git: Git, skill: GitSkill, commit: str, directory: Path, target: Path, left: int
) -> int:
    """Write one skill's files down; return how many bytes they have."""
    where = f"directory {skill.path!r}" if skill.path else "repository"
    files = await _listed(git, await _root(git, skill, commit, directory), directory)
    if not any(file.path == SKILL for file in files):
        raise ValueError(f"its {where} has no {SKILL} at {commit}")
    size = await _size(git, files, directory)
    if size > MAX_SKILL_BYTES:
        raise ValueError(f"its files have more than {MAX_SKILL_BYTES} bytes together")
    if size > left:
        raise ValueError(f"skills of repositories have more than {MAX_FETCHED_BYTES} bytes in all")
    asked = b"".join(file.blob + b"\n" for file in files)
    room = size + len(files) * _SHOWN
    said = BytesIO(await git.read("cat-file", "--batch", workdir=directory, stdin=asked, most=room))
    for file in files:
        length = int(said.readline().split()[2])
        content = said.read(length)
        said.read(1)
        if content.startswith(_LFS):
            raise ValueError(f"{_shown(file.path)} is in Git LFS, which is not asked; commit it")
        parts = (skill.name, *file.path.split("/"))
        below.write(target, parts, BytesIO(content), 0o555 if file.runs else 0o444, 0)
    return size


async def _root(git: Git, skill: GitSkill, commit: str, directory: Path) -> bytes:
    """The id of the tree that is the skill's directory; no link on the way is followed."""
    try:
        name = f"{commit}:{skill.path}" if skill.path else f"{commit}^{{tree}}"
        found = (await git("rev-parse", "--verify", name, workdir=directory)).strip()
        if (await git("cat-file", "-t", found, workdir=directory)).strip() == "tree":
            return found.encode()
    except GitError:
        pass
    raise ValueError(f"{skill.url} has no directory {skill.path!r} at {skill.ref or 'HEAD'}")


async def _listed(git: Git, root: bytes, directory: Path) -> list[_File]:
    """All files of a tree, directory by directory: one that is in itself many times is no harm."""
    files: list[_File] = []
    trees, seen = [("", root)], 0
    while trees:
        above, tree = trees.pop()
        seen += 1
        if above.count("/") >= MAX_SKILL_DEPTH:
            raise ValueError(f"{_shown(above)} is deeper than {MAX_SKILL_DEPTH} directories")
        said = await git.read("ls-tree", "-z", tree.decode(), workdir=directory, most=_TREE_BYTES)
        for entry in said.split(b"\0")[:-1]:
            about, _, name = entry.partition(b"\t")
            mode, _, blob = about.split()
            path = above + os.fsdecode(name)
            if "/" in os.fsdecode(name) or not is_inside(path):
                raise ValueError(f"{_shown(path)} is no name of a file")
            if mode == _TREE:
                trees.append((f"{path}/", blob))
            elif mode in _FILES:
                files.append(_File(path, blob, mode == _RUNS))
            else:
                what = _NOT_TAKEN.get(mode, "no file")
                raise ValueError(f"{_shown(path)} is {what}; a skill has files only")
            if len(files) + len(trees) + seen > MAX_SKILL_FILES:
                raise ValueError(f"more than {MAX_SKILL_FILES} files and directories")
    return files


async def _size(git: Git, files: Sequence[_File], directory: Path) -> int:
    asked = b"".join(file.blob + b"\n" for file in files)
    said = await git("cat-file", "--batch-check", workdir=directory, stdin=asked)
    return sum(int(line.split()[2]) for line in said.splitlines())


def _shown(path: str) -> str:
    return repr(os.fsencode(path).decode("utf-8", "replace")[:_SHOWN])
