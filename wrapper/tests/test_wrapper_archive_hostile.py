"""Whatever tree an agent leaves, its worker packs it or says why not, and restores what it has."""

import gzip
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.agent_user import as_agent

from worker_wrapper.session import archive, tree
from worker_wrapper.session.archive import UnreadableError, forget, pack, unpack
from worker_wrapper.session.tree import TooLargeError

MEGABYTE = 1024 * 1024
USED = (gzip, tarfile)
"""Loaded before the test becomes a user who may not read where they are."""


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory of the agent's, while we are its user."""
    with as_agent() as directory:
        yield directory


def roots(home: Path) -> dict[str, Path]:
    return {
        ".claude/projects": home / ".claude" / "projects",
        ".worker-wrapper/conversations.json": home / ".worker-wrapper" / "conversations.json",
    }


def packed(home: Path) -> bytes:
    return pack(roots(home), agent="claude", sessions=(), limit=MEGABYTE)


def restored(data: bytes, home: Path) -> tuple[int, list[str]]:
    skipped: list[str] = []

    def skip(name: str, error: Exception) -> None:
        skipped.append(f"{name}: {error}")

    return unpack(data, roots(home), agent="claude", skipped=skip), skipped


@pytest.fixture
def projects(disk: Path) -> Path:
    path = disk / "home" / ".claude" / "projects"
    (path / "deep").mkdir(parents=True)
    (path / "a").write_text("said")
    (path / "deep" / "b").write_text("more")
    conversations = disk / "home" / ".worker-wrapper" / "conversations.json"
    conversations.parent.mkdir()
    conversations.write_text("{}")
    return path


def _directory(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "x").mkdir()


def _locked(path: Path) -> None:
    path.mkdir()
    path.chmod(0)


def _link(path: Path) -> None:
    path.symlink_to("/etc")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


OBSTACLES = [_directory, _locked, _link, _dangling, _circle, os.mkfifo, Path.touch]
PLACES = [
    ".claude/projects/.orbiter-draft",
    ".claude/projects/a",
    ".claude/projects/deep/b",
    ".claude/projects/deep",
    ".claude/projects",
    ".claude",
    ".worker-wrapper/conversations.json",
    ".worker-wrapper",
]


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("place", PLACES)
def test_whatever_is_in_the_place_of_a_file_the_memory_is_restored(
    disk: Path, projects: Path, obstacle: Callable[[Path], None], place: str
) -> None:
    data = packed(disk / "home")
    target = disk / "other" / place
    target.parent.mkdir(parents=True)

    obstacle(target)
    if place in (".claude", ".worker-wrapper") and obstacle is _link:
        count, skipped = restored(data, disk / "other")
        assert count + len(skipped) == 3
        return
    assert restored(data, disk / "other") == (3, [])
    assert (disk / "other" / ".claude" / "projects" / "a").read_text() == "said"
    assert (disk / "other" / ".claude" / "projects" / "deep" / "b").read_text() == "more"
    assert (disk / "other" / ".worker-wrapper" / "conversations.json").read_text() == "{}"


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o500, 0o100])
@pytest.mark.parametrize("place", ["projects", "projects/deep", "."])
def test_a_directory_that_was_made_read_only_is_written_to(
    disk: Path, projects: Path, mode: int, place: str
) -> None:
    data = packed(disk / "home")
    (projects / "a").write_text("half of a turn that was cut off")
    (projects.parent / place).chmod(mode)
    assert restored(data, disk / "home") == (3, [])
    assert (projects / "a").read_text() == "said"


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_directory_nobody_may_look_into_is_left_out(
    disk: Path, projects: Path, mode: int
) -> None:
    (projects / "deep").chmod(mode)
    assert restored(packed(disk / "home"), disk / "other") == (2, [])


def test_a_file_nobody_may_read_is_left_out(disk: Path, projects: Path) -> None:
    (projects / "a").chmod(0)
    assert restored(packed(disk / "home"), disk / "other") == (2, [])


def _nested(at: Path, name: str, times: int) -> None:
    """Make directories as an agent can: one by one, so that no path is too long."""
    fd = os.open(at, os.O_RDONLY)
    for _ in range(times):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


@pytest.mark.parametrize(
    ("name", "times", "why"),
    [
        ("d", tree.DEPTH + 1, "has directories nested deeper than 32"),
        ("x" * 255, 4, "has a path longer than 1024 bytes"),
        ("x" * 255, 16, "has a path longer than 1024 bytes"),
        ("x" * 255, 20, "has a path longer than 1024 bytes"),
    ],
)
def test_what_is_nested_beyond_the_bounds_is_refused_and_nothing_is_packed(
    disk: Path, projects: Path, name: str, times: int, why: str
) -> None:
    _nested(projects, name, times)
    with pytest.raises(TooLargeError, match=why):
        packed(disk / "home")
    forget(roots(disk / "home"), "a")


def test_the_longest_path_that_is_packed_is_restored_below_a_home_of_any_depth(
    disk: Path, projects: Path
) -> None:
    _nested(projects, "x" * 240, 4)
    data = packed(disk / "home")
    home = disk.joinpath(*["y" * 250] * 13)
    home.mkdir(parents=True)
    assert restored(data, home) == (4, [])


def test_a_sparse_file_of_any_size_is_refused_before_it_is_read(disk: Path, projects: Path) -> None:
    with (projects / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TooLargeError, match="is larger than 268435456 bytes"):
        packed(disk / "home")


def test_more_files_than_are_restored_are_not_packed(
    disk: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = packed(disk / "home")
    monkeypatch.setattr(archive, "FILES", 2)
    with pytest.raises(TooLargeError, match="has more than 2 files"):
        packed(disk / "home")
    with pytest.raises(UnreadableError, match="more than 2 files"):
        restored(data, disk / "other")


def test_more_names_than_can_be_looked_at_are_not_looked_at(
    disk: Path, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LOOKED_AT", 10)
    for number in range(10):
        (projects / f"directory-{number}").mkdir()
    with pytest.raises(TooLargeError, match="has more than 10 files and directories"):
        packed(disk / "home")


def test_a_conversation_in_a_read_only_directory_is_forgotten_too(
    disk: Path, projects: Path
) -> None:
    (projects / "deep").chmod(0o500)
    forget(roots(disk / "home"), "deep/b")
    assert not (projects / "deep" / "b").exists()


NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b".orbiter-draft", b"auth.json", b"x" * 255, b"\xff\xfe", b"\n"]),
    st.binary(min_size=1, max_size=40).filter(
        lambda name: not set(name) & {0, ord("/")} and name not in (b".", b"..")
    ),
)
MODES = st.sampled_from([0o700, 0o600, 0o500, 0o400, 0o100, 0])
LEAVES = st.tuples(st.sampled_from(["file", "fifo", "link", "circle", "hole"]), MODES)
TREES = st.recursive(
    LEAVES,
    lambda below: st.tuples(st.dictionaries(NAMES, below, max_size=4), MODES),
    max_leaves=12,
)


def grow(path: Path, drawn: object) -> None:
    """Make what was drawn."""
    match drawn:
        case dict() as below, int(mode):
            path.mkdir()
            for name, each in below.items():
                grow(path / os.fsdecode(name), each)
            path.chmod(mode)
        case "fifo", int(mode):
            os.mkfifo(path, mode)
        case "link", _:
            path.symlink_to("/etc")
        case "circle", _:
            path.symlink_to(path.name)
        case kind, int(mode):
            with path.open("wb") as file:
                file.write(b"said")
                file.truncate(1 << 40 if kind == "hole" else 4)
            path.chmod(mode)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=TREES, other=TREES)
def test_any_tree_is_packed_or_refused_and_restored_into_nothing_and_over_any_other(
    left: object, other: object
) -> None:
    with as_agent() as directory:
        homes = [directory / name for name in ("left", "empty", "other")]
        for home, drawn in zip(homes, (left, None, other), strict=True):
            (home / ".claude").mkdir(parents=True)
            if drawn is not None:
                grow(home / ".claude" / "projects", drawn)
        try:
            data = packed(homes[0])
        except TooLargeError:
            return
        first, second = restored(data, homes[1]), restored(data, homes[2])
        assert first == second == (first[0], [])
        assert len(list(tree.files(roots(homes[1])))) == first[0]
