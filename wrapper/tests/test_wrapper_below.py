"""What an agent leaves is removed, however deep it is nested and whatever its modes say."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support.agent_user import as_agent
from support.git_repositories import bare_copy, make_template

from orbiter_contracts import GitWorkspace, Workspace
from worker_wrapper.process import below
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.workspace import prepare

DEEP = 1_500
"""Deeper than Python calls itself, than a path may be long, and than a process has files open."""


def nest(root: Path, name: str, depth: int = DEEP) -> None:
    at = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
        deeper = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)


@contextmanager
def shallow(root: Path) -> Iterator[None]:
    """A test that fails leaves nothing that pytest cannot remove."""
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", root], check=False)


def test_a_tree_nested_thousands_deep_is_removed(tmp_path: Path) -> None:
    with shallow(tmp_path):
        nest(tmp_path, "deep")
        below.remove(tmp_path, ("deep",))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_many_files_and_links_are_removed_and_where_links_lead_stays(tmp_path: Path) -> None:
    wide, kept = tmp_path / "wide", tmp_path / "kept"
    for directory in (wide / "a" / "b", wide / "empty", kept):
        directory.mkdir(parents=True)
        for number in range(1_500):
            (directory / f"{number}").touch()
    (kept / "precious").touch()
    (wide / "link").symlink_to(kept)
    (wide / "a" / "link").symlink_to(kept)
    os.mkfifo(wide / "fifo")

    below.remove(tmp_path, ("wide",))

    assert list(tmp_path.iterdir()) == [kept]
    assert (kept / "precious").exists()


def test_what_a_tool_has_made_read_only_is_removed() -> None:
    """Go's module cache is; and an agent may forbid whatever is its own."""
    with as_agent() as directory:
        locked = directory / "mod" / "pkg" / "v1"
        locked.mkdir(parents=True)
        (locked / "file").touch()
        for path, mode in ((locked, 0o555), (locked.parent, 0o500), (directory / "mod", 0)):
            path.chmod(mode)

        below.remove(directory, ("mod",))

        assert list(directory.iterdir()) == []


@pytest.mark.parametrize("killed_at", ["", "deep", "refs"])
async def test_the_next_task_begins_with_an_empty_workspace(tmp_path: Path, killed_at: str) -> None:
    """Also when the worker before us was killed while it removed the one before."""
    origin = bare_copy(make_template(tmp_path), tmp_path / "origin.git")
    workspace, spill = tmp_path / "workspace", tmp_path / "spill"
    spill.mkdir()

    async def begin() -> None:
        await prepare(
            Workspace(git=GitWorkspace(url=origin.as_uri())),
            *(workspace, None),
            environ={"PATH": os.environ["PATH"]},
            spill_dir=spill,
            stop=StopTurn(),
        )

    await begin()
    first = set(workspace.iterdir())
    with shallow(workspace):
        nest(workspace, "deep")
        if killed_at:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(os, "rmdir", partial(_killed, os.rmdir, killed_at))
                with pytest.raises(SystemExit):
                    await begin()
        await begin()
        assert set(workspace.iterdir()) == first


def _killed(rmdir: Callable[..., None], at: str, name: str, *, dir_fd: int) -> None:
    rmdir(name, dir_fd=dir_fd)
    if name == at:
        raise SystemExit
