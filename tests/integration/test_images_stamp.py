from pathlib import Path

import pytest
from orbiter_images.catalog import Image
from orbiter_images.stamp import Stamps, stamps_of

VERSIONS = {"CLAUDE_VERSION": "1", "CODEX_VERSION": "1"}
PLAIN = Image("plain", ("plain.Dockerfile", "src"))
CLAUDE = Image("claude", ("plain.Dockerfile",), agent="claude")
CHILD = Image("child", ("child.Dockerfile",), parent="plain")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "plain.Dockerfile").write_text("FROM x\n")
    (tmp_path / "child.Dockerfile").write_text("FROM plain\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    return tmp_path


def marks(tree: Path, versions: dict[str, str] = VERSIONS, base: str = "base") -> dict[str, str]:
    return stamps_of((PLAIN, CLAUDE, CHILD), versions, base, tree)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_the_same_tree_has_the_same_stamps(tree: Path) -> None:
    assert marks(tree) == marks(tree)


def test_a_changed_file_makes_its_images_and_their_children_stale(tree: Path) -> None:
    before = marks(tree)
    (tree / "src" / "a.py").write_text("a = 2\n")
    assert changed(before, marks(tree)) == {"plain", "child"}


def test_a_new_file_and_a_new_mode_count(tree: Path) -> None:
    before = marks(tree)
    (tree / "src" / "b.py").touch()
    added = marks(tree)
    (tree / "src" / "b.py").chmod(0o755)
    assert len({before["plain"], added["plain"], marks(tree)["plain"]}) == 3


def test_byte_code_does_not_count(tree: Path) -> None:
    before = marks(tree)
    (tree / "src" / "__pycache__").mkdir()
    (tree / "src" / "__pycache__" / "a.pyc").touch()
    assert marks(tree) == before


def test_another_version_of_an_agent_makes_only_its_image_stale(tree: Path) -> None:
    assert changed(marks(tree), marks(tree, VERSIONS | {"CLAUDE_VERSION": "2"})) == {"claude"}


def test_another_base_makes_everything_stale(tree: Path) -> None:
    assert changed(marks(tree), marks(tree, base="other")) == {"plain", "claude", "child"}


def test_a_missing_part_is_named(tree: Path) -> None:
    (tree / "src" / "a.py").unlink()
    (tree / "src").rmdir()
    with pytest.raises(FileNotFoundError, match="plain needs src, which is not there"):
        marks(tree)


def test_stamps_outlive_the_run(tmp_path: Path) -> None:
    Stamps(tmp_path / "state" / "stamps.json").store("built a", "1")
    assert Stamps(tmp_path / "state" / "stamps.json").holds("built a", "1")
    assert not Stamps(tmp_path / "state" / "stamps.json").holds("built a", "2")
