"""Instructions and skills in an agent's HOME: put there before each turn, and taken away again."""

from pathlib import Path

import pytest

from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import AgentOptions
from worker_wrapper.turn.home import put_into_home

CLAUDE, ORBITER = load_agent("claude"), load_agent("orbiter")
TEXT = "---\ndescription: writes notes\n---\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    (tmp_path / "skills" / "notes").mkdir(parents=True)
    (tmp_path / "skills" / "notes" / "SKILL.md").write_text(TEXT)
    (tmp_path / "skills" / "notes" / "form.txt").write_text("a form")
    return tmp_path / "skills"


def put(home: Path, agent: object = CLAUDE, **options: object) -> str:
    return put_into_home(agent, AgentOptions(**options), {"HOME": str(home)})  # type: ignore[arg-type]


def test_they_are_where_the_cli_looks(home: Path, skills: Path) -> None:
    assert put(home, instructions="be kind", skills_dir=skills) == ""
    assert (home / ".claude/CLAUDE.md").read_text().endswith("-->\nbe kind")
    assert (home / ".claude/skills/notes/SKILL.md").read_text() == TEXT
    assert (home / ".claude/skills/notes/form.txt").read_text() == "a form"


def test_directories_of_a_skill_and_what_may_be_run_stay_as_they_are(
    home: Path, skills: Path, tmp_path: Path
) -> None:
    script = skills / "notes" / "scripts" / "sign.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o555)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (skills / "notes" / "link").symlink_to(tmp_path / "outside")
    put(home, skills_dir=skills)
    put(home, skills_dir=skills)
    there = home / ".claude/skills/notes"
    assert (there / "scripts/sign.sh").stat().st_mode & 0o777 == 0o555
    assert (there / "SKILL.md").stat().st_mode & 0o777 == 0o444
    assert not (there / "link").exists()


def test_a_variable_moves_them(home: Path, tmp_path: Path) -> None:
    moved = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(tmp_path / "moved")}
    put_into_home(CLAUDE, AgentOptions(instructions="be kind"), moved)
    assert (tmp_path / "moved/CLAUDE.md").exists()
    assert not (home / ".claude").exists()


def test_a_turn_has_what_there_is_now(home: Path, skills: Path) -> None:
    put(home, instructions="be kind", skills_dir=skills)
    (skills / "notes" / "form.txt").unlink()
    (skills / "notes").rename(skills / "letters")
    (home / ".claude/skills/mine").mkdir()
    put(home, instructions="be brief", skills_dir=skills)
    assert (home / ".claude/CLAUDE.md").read_text().endswith("be brief")
    found = sorted(path.name for path in (home / ".claude/skills").iterdir())
    assert found == ["letters", "mine"]
    assert not (home / ".claude/skills/letters/form.txt").exists()
    put(home)
    assert not (home / ".claude/CLAUDE.md").exists()
    assert [path.name for path in (home / ".claude/skills").iterdir()] == ["mine"]


def test_what_the_agent_has_made_of_them_is_put_right_and_no_link_is_followed(
    home: Path, skills: Path, tmp_path: Path
) -> None:
    put(home, skills_dir=skills)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "notes").mkdir()
    (home / ".claude/skills").rename(home / ".claude/old")
    (home / ".claude/skills").symlink_to(outside)
    put(home, skills_dir=skills)
    assert (home / ".claude/skills/notes/SKILL.md").read_text() == TEXT
    assert [*outside.iterdir()] == [outside / "notes"]


def test_instructions_of_somebody_else_stay_and_ours_are_said(home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_text("theirs")
    assert put(home, instructions="ours") == "ours"
    assert (home / ".claude/CLAUDE.md").read_text() == "theirs"


def test_an_agent_without_such_a_place_is_told_in_words(home: Path, skills: Path) -> None:
    assert put(home, ORBITER, instructions="be kind", skills_dir=skills) == (
        "be kind\n\nRead one of these files when its task is at hand:\n"
        f"- {skills}/notes/SKILL.md: writes notes"
    )
    assert [*home.iterdir()] == []


def test_what_cannot_be_given_is_said(home: Path, skills: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="AGENT_INSTRUCTIONS_FILE cannot be read"):
        put(home, instructions_file=tmp_path / "missing")
    (tmp_path / "long").write_text("x" * 65537)
    with pytest.raises(ValueError, match="more than 65536 bytes"):
        put(home, instructions_file=tmp_path / "long")
    (skills / "notes" / "more").write_bytes(bytes(4 * 1024 * 1024))
    with pytest.raises(ValueError, match="notes has more than 4194304 bytes"):
        put(home, skills_dir=skills)
    (skills / "notes" / "more").unlink()
    for number in range(500):
        (skills / "notes" / f"{number}.txt").touch()
    with pytest.raises(ValueError, match="notes has more than 500 files"):
        put(home, skills_dir=skills)
    (skills / "notes" / "SKILL.md").rename(skills / "notes" / "0.txt")
    for number in range(1, 500):
        (skills / "notes" / f"{number}.txt").unlink()
    with pytest.raises(ValueError, match=r"notes has no SKILL\.md"):
        put(home, skills_dir=skills)
