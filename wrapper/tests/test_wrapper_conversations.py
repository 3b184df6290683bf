"""What is remembered of the agent's own conversations."""

from pathlib import Path

import pytest

from orbiter_contracts import Usage
from worker_wrapper.agents.base import Session
from worker_wrapper.conversations import FILE, Conversations

LAST = Session("s-1", resumed=True, totals=Usage(turns=3, cost_usd=0.5), agent_session_id="a-1")


def test_a_session_nobody_had_begins_anew(tmp_path: Path) -> None:
    assert Conversations(tmp_path, "claude").session("s-1") == Session("s-1")


def test_a_session_is_given_back_as_it_was_left_also_after_a_restart(tmp_path: Path) -> None:
    before = Conversations(tmp_path, "codex")
    before.keep(LAST)
    assert before.session("s-1") == LAST
    assert Conversations(tmp_path, "codex").session("s-1") == LAST


def test_another_agent_does_not_know_the_session(tmp_path: Path) -> None:
    Conversations(tmp_path, "codex").keep(LAST)
    assert Conversations(tmp_path, "claude").session("s-1") == Session("s-1")


def test_the_oldest_sessions_are_forgotten(tmp_path: Path) -> None:
    conversations = Conversations(tmp_path, "claude")
    for number in range(51):
        conversations.keep(Session(f"s-{number}", resumed=True))
    assert not conversations.session("s-0").resumed
    assert conversations.session("s-1").resumed
    assert conversations.session("s-50").resumed


@pytest.mark.parametrize("text", ["not json", "[1]", '{"sessions": [5]}', "null"])
def test_a_file_that_makes_no_sense_counts_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text(text)
    assert Conversations(tmp_path, "claude").session("s-1") == Session("s-1")


def test_a_home_that_cannot_be_written_costs_only_the_memory_after_a_restart(
    tmp_path: Path,
) -> None:
    home = tmp_path / "a-file"
    home.touch()
    conversations = Conversations(home, "claude")
    conversations.keep(LAST)
    assert conversations.session("s-1") == LAST
