"""What adapters hear while the agent speaks, and how large they say a conversation is."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orbiter_contracts import Usage
from worker_wrapper.agents import claude, codex, factory
from worker_wrapper.agents.base import Agent, AgentOptions, AgentResult, Piece, Session, Turn
from worker_wrapper.process.command import Outcome
from worker_wrapper.process.output_buffer import OutputBuffer
from worker_wrapper.session.snapshot import session_roots
from worker_wrapper.turn.usage import context_size

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOME = Path("/home/agent")


def parsed(agent: Agent, directory: Path, *events: dict[str, Any]) -> AgentResult:
    spill = OutputBuffer(directory)
    spill.write("".join(f"{json.dumps(event)}\n" for event in events).encode())
    return agent.parse(Outcome(0, None, spill, b"", False, None, False, NOW, NOW))


def argv(agent: Agent, *, stream: bool) -> tuple[str, ...]:
    return agent.build(Turn("do it", 60, None, Path("/workspace"), AgentOptions(), {}, stream)).argv


def delta(text: str, parent: str | None = None) -> dict[str, Any]:
    inner = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": inner, "parent_tool_use_id": parent}


def block(kind: str) -> dict[str, Any]:
    inner = {"type": "content_block_start", "content_block": {"type": kind, "text": ""}}
    return {"type": "stream_event", "event": inner, "parent_tool_use_id": None}


@pytest.mark.parametrize(
    ("event", "piece"),
    [
        (delta("hel"), Piece("hel")),
        (block("text"), Piece("", opens=True)),
        (block("tool_use"), None),
        (delta("inner voice", parent="toolu_1"), None),
        ({"type": "assistant", "message": {"content": []}}, None),
        ({"type": "stream_event", "event": None}, None),
        ({}, None),
    ],
    ids=str,
)
def test_claude_is_heard_word_by_word(event: dict[str, Any], piece: Piece | None) -> None:
    assert claude.AGENT.piece(event) == piece


@pytest.mark.parametrize(
    ("event", "piece"),
    [
        (
            {"type": "item.completed", "item": {"type": "agent_message", "text": "hello"}},
            Piece("hello", opens=True),
        ),
        ({"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}}, None),
        ({"type": "item.started", "item": {"type": "agent_message"}}, None),
        ({"type": "turn.completed"}, None),
    ],
    ids=str,
)
def test_codex_is_heard_message_by_message(event: dict[str, Any], piece: Piece | None) -> None:
    assert codex.AGENT.piece(event) == piece


@pytest.mark.parametrize(
    ("event", "piece"),
    [
        ({"type": "message", "role": "assistant", "text": "hello"}, Piece("hello", opens=True)),
        ({"type": "message", "role": "user", "text": "do it"}, None),
        ({"type": "tool_call"}, None),
    ],
    ids=str,
)
def test_droid_is_heard_message_by_message(event: dict[str, Any], piece: Piece | None) -> None:
    assert factory.AGENT.piece(event) == piece


def test_agents_are_asked_for_a_stream_only_when_somebody_listens() -> None:
    assert "--include-partial-messages" in argv(claude.AGENT, stream=True)
    assert "--include-partial-messages" not in argv(claude.AGENT, stream=False)
    assert "stream-json" in argv(factory.AGENT, stream=True)
    assert "json" in argv(factory.AGENT, stream=False)


def test_what_ends_a_droids_stream_is_its_result(tmp_path: Path) -> None:
    result = parsed(
        factory.AGENT,
        tmp_path,
        {"type": "message", "role": "assistant", "text": "Let me look."},
        {
            "type": "completion",
            "finalText": "Done.",
            "numTurns": 2,
            "session_id": "f-2",
            "usage": {"input_tokens": 200, "output_tokens": 20},
        },
    )
    assert (result.text, result.turns, result.is_error) == ("Done.", 2, False)
    assert result.agent_session_id == "f-2"
    assert result.usage == Usage(input_tokens=200, output_tokens=20)


def test_claude_says_how_large_the_conversation_is(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 30}
    result = parsed(
        claude.AGENT,
        tmp_path,
        {"type": "assistant", "message": {"usage": {"input_tokens": 9}}},
        {"type": "assistant", "message": {"usage": usage | {"output_tokens": 5}}},
        {
            "type": "assistant",
            "message": {"usage": {"input_tokens": 1}},
            "parent_tool_use_id": "toolu_1",
        },
        {"type": "result", "result": "Done.", "num_turns": 2},
    )
    assert result.context_tokens == 745


def test_the_size_is_estimated_where_the_cli_does_not_say() -> None:
    used = Usage(input_tokens=250, cache_read_tokens=50, output_tokens=30)
    assert context_size(AgentResult(turns=3), used) == 110
    assert context_size(AgentResult(turns=1, requests=2), used) == 165
    assert context_size(AgentResult(turns=3, context_tokens=7), used) == 7
    assert context_size(AgentResult(turns=3), None) is None


def test_codex_counts_its_tool_calls_as_requests(tmp_path: Path) -> None:
    def item(kind: str) -> dict[str, Any]:
        return {"type": "item.completed", "item": {"type": kind, "text": "t"}}

    kinds = ("reasoning", "command_execution", "agent_message")
    result = parsed(codex.AGENT, tmp_path, *map(item, kinds), {"type": "turn.completed"})
    assert result.requests == 2


@pytest.mark.parametrize(
    ("agent", "variable", "name", "moved"),
    [
        (claude.AGENT, "CLAUDE_CONFIG_DIR", ".claude/projects", "/data/projects"),
        (codex.AGENT, "CODEX_HOME", ".codex/sessions", "/data/sessions"),
    ],
    ids=["claude", "codex"],
)
def test_conversations_are_looked_for_where_the_cli_keeps_them(
    agent: Agent, variable: str, name: str, moved: str
) -> None:
    assert session_roots(agent, {}, HOME) == {name: HOME / name}
    assert session_roots(agent, {variable: "/data"}, HOME) == {name: Path(moved)}


def test_files_of_a_conversation_are_known_by_the_agents_own_id() -> None:
    known = Session("chat", resumed=True, agent_session_id="a-1")
    for agent in (claude.AGENT, codex.AGENT, factory.AGENT):
        assert agent.conversation_id(known) == "a-1"
    assert claude.AGENT.conversation_id(Session("chat")) == claude.session_uuid("chat")
    assert codex.AGENT.conversation_id(Session("chat")) is None
