"""What is remembered of the agent's own conversations."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orbiter_contracts import Usage
from worker_wrapper.agents.base import Session
from worker_wrapper.session.conversations import FILE, Conversations

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


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _enormous(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("make", [os.mkfifo, _endless, _enormous, os.mkdir])
@pytest.mark.parametrize("name", [FILE, FILE.with_suffix(".new")])
def test_whatever_the_agent_puts_in_the_files_place_stops_nobody(
    tmp_path: Path, make: Callable[[Path], None], name: Path
) -> None:
    (tmp_path / FILE).parent.mkdir()
    make(tmp_path / name)
    conversations = Conversations(tmp_path, "claude")
    assert conversations.session("s-1") == Session("s-1")
    conversations.keep(LAST)
    assert conversations.session("s-1") == LAST


@pytest.mark.parametrize("given", ["a\u0000b", "", "two words", "x" * 201, "-x", "--flag", "a\n"])
def test_a_conversation_whose_id_could_be_no_argument_is_not_resumed(
    tmp_path: Path, given: str
) -> None:
    Conversations(tmp_path, "claude").keep(LAST)
    path = tmp_path / FILE
    path.write_text(path.read_text().replace('"a-1"', json.dumps(given)))
    assert Conversations(tmp_path, "claude").session("s-1") == Session("s-1")


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
