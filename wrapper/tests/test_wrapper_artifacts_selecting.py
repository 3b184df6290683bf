"""Which files patterns mean, in a workspace that somebody hostile has filled."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbiter_contracts.artifacts import file_name_problem
from worker_wrapper.artifacts import selecting
from worker_wrapper.artifacts.selecting import Patterns, Selection, select

FILES = ["a.md", "out/b.md", "out/deep/c.md", "out/deep/d.txt", ".hidden", "x[1].md", ".git/config"]


def chosen(root: Path, *patterns: str) -> Selection:
    return select(root, patterns, until=time.monotonic() + 60)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a.md"], ["a.md"]),
        (["*.md"], ["a.md", "x[1].md"]),
        (["out"], ["out/b.md", "out/deep/c.md", "out/deep/d.txt"]),
        (["out/"], ["out/b.md", "out/deep/c.md", "out/deep/d.txt"]),
        (["out/*"], ["out/b.md", "out/deep/c.md", "out/deep/d.txt"]),
        (["out/*.md"], ["out/b.md"]),
        (["**/*.md"], ["a.md", "x[1].md", "out/b.md", "out/deep/c.md"]),
        (["out/**/d.txt"], ["out/deep/d.txt"]),
        (["**/deep/?.md"], ["out/deep/c.md"]),
        (["x[[]1].md"], ["x[1].md"]),
        ([".git", ".git/config", "**/config"], []),
        (["a.md", "*.md", "a*"], ["a.md", "x[1].md"]),
    ],
)
def test_a_pattern_means_these_files(root: Path, patterns: list[str], names: list[str]) -> None:
    assert sorted(chosen(root, *patterns).names) == sorted(names)


def test_everything_is_everything_but_git(root: Path) -> None:
    assert sorted(chosen(root, "**").names) == sorted(set(FILES) - {".git/config"})


def test_what_matches_nothing_is_named(root: Path) -> None:
    assert chosen(root, "a.md", "nothing").unmatched == ["nothing"]


def test_no_link_leads_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "dir").symlink_to(tmp_path)
    (root / "up").symlink_to("..")
    found = chosen(root, "file", "dir/secret", "dir/*", "up/**")
    assert found.names == []
    assert found.left_out == ["2 are links, pipes or devices, and no files"]


def test_names_that_cannot_be_printed_are_left_out(root: Path) -> None:
    for name in (b"a\nb", b"e\x1b[2J", b"bad\xff", b"rtl\xe2\x80\xae"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x")
    found = chosen(root, "*")
    assert all(file_name_problem(name) is None for name in found.names)
    [sentence] = found.left_out
    assert sentence.isprintable()


def test_a_directory_of_very_many_files_is_given_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "LOOKED_AT", 50)
    for number in range(200):
        (root / f"n{number}").touch()
    assert "more than 50 files had to be looked at" in chosen(root, "*").left_out[0]


def test_a_workspace_that_takes_too_long_is_given_up(root: Path) -> None:
    assert "it took too long" in select(root, ["**"], until=0.0).left_out[0]


def test_directories_nested_too_deep_are_left_out(root: Path) -> None:
    at = root
    for _ in range(80):
        at /= "d"
        at.mkdir()
    (at / "f").touch()
    found = chosen(root, "d")
    assert found.names == []
    assert "nested deeper" in found.left_out[0]


def test_a_workspace_that_is_gone_has_nothing(tmp_path: Path) -> None:
    assert chosen(tmp_path / "gone", "**").names == []


@given(st.lists(st.text("ab*?[]!.{}", min_size=1, max_size=12), min_size=1), st.text(max_size=20))
def test_any_pattern_can_be_asked_of_any_name(patterns: list[str], name: str) -> None:
    made = Patterns(patterns)
    made.complete(made.after(made.begin, name))


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    made = Patterns(["*a" * 127])
    began = time.monotonic()
    made.after(made.begin, "a" * 255)
    assert time.monotonic() - began < 5
