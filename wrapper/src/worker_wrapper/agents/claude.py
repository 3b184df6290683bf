"""Claude Code in print mode. Checked against the real CLI, version 2.1.330."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from orbiter_contracts import Usage, clamped_cost, clamped_count
from worker_wrapper.agents.base import (
    AgentResult,
    Heard,
    Piece,
    Session,
    SessionConflict,
    Spent,
    Turn,
)
from worker_wrapper.agents.claude_transcript import heard
from worker_wrapper.agents.decoding import loads, session_uuid, words
from worker_wrapper.agents.json_output import find_result, last_object, read_result
from worker_wrapper.agents.mcp import Variables, usual
from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

_IN_USE = "already in use"
_UNKNOWN = "No conversation found"
_COST_STATE = b'"cost-state"'
_NAMED_TOOLS = 20
_NAME_CHARACTERS = 100
_WAITING_TOOLS = "Monitor,ScheduleWakeup,CronCreate"
"""Tools that let it end its turn and stay all the same, waiting for something to happen: the answer
would come when that has, or never."""


class Claude:
    """Adapter for `claude -p`."""

    name = "claude"
    program = "claude"
    credentials = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
    passes = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CONFIG_DIR")
    session_paths = (".claude/projects",)
    home_variable = "CLAUDE_CONFIG_DIR"
    instructions_path = ".claude/CLAUDE.md"
    skills_path = ".claude/skills"
    ignores = ()
    resumes_mid_turn = True

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        options, given = turn.options, Variables()
        servers = json.dumps({"mcpServers": usual(turn.mcp, given)})
        flags = {
            "--model": options.model,
            "--max-turns": options.max_turns,
            "--max-budget-usd": options.max_cost_usd,
            "--append-system-prompt": options.system_prompt,
            "--mcp-config": servers if turn.mcp else None,
        }
        said = [(flag, str(value)) for flag, value in flags.items() if value is not None]
        return Command(
            argv=(
                self.program,
                "-p",
                *_session_flags(turn.session),
                # A stream, not one object at the end: it tells how large the conversation is.
                *("--output-format", "stream-json", "--verbose"),
                *(("--include-partial-messages",) if turn.stream else ()),
                *("--dangerously-skip-permissions", "--disallowedTools", _WAITING_TOOLS),
                *(word for pair in said for word in pair),
            ),
            stdin=turn.prompt.encode("utf-8", "replace"),
            env={
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                # Retrying a refused key for three minutes helps nobody.
                "CLAUDE_CODE_MAX_RETRIES": "3",
                # Otherwise `@/path` in a message pulls that file into the conversation. (Without
                # all attachments the model would hear of no skill and no tool of an MCP server.)
                "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
                # Otherwise a server left in the background keeps it from ending, answer or not.
                "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
                **given.env,
            },
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the object that it ends with, and the last answer of the model before that."""
        said = find_result(outcome.stdout)
        if said is None:
            return AgentResult(is_error=True, session_conflict=_conflict(outcome.complaint))
        result = read_result(said)
        result.totals = _totals(said)
        result.permission_denials = _denials(said)
        result.context_tokens = _context(outcome.stdout)
        if result.is_error and not result.turns:
            result.session_conflict = _conflict(outcome.complaint)
        return result

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """Read a delta; what subagents say among themselves is none."""
        inner = event.get("event")
        if not isinstance(inner, dict) or event.get("parent_tool_use_id") is not None:
            return None
        delta, block = inner.get("delta"), inner.get("content_block")
        if isinstance(block, dict) and block.get("type") == "text":
            return Piece(words(block.get("text")), opens=True)
        if isinstance(delta, dict) and delta.get("type") == "text_delta":
            return Piece(words(delta.get("text")))
        return None

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Its words as they come, its calls and their results whole."""
        return heard(event)

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """Read how an answer begins and ends; those of subagents count too."""
        inner = event.get("event")
        if not isinstance(inner, dict):
            return None
        thread = words(event.get("parent_tool_use_id"))[:_NAME_CHARACTERS]
        if inner.get("type") == "message_start":
            message = inner.get("message")
            return Spent(_counted(message), opens=True, thread=thread)
        if inner.get("type") == "message_delta":
            return Spent(_counted(inner), thread=thread)
        return None

    def began(self, event: Mapping[str, Any]) -> str | None:
        """It takes our id."""
        return None

    def recorded(self, conversation: bytes) -> Usage | None:
        """Its last `cost-state`, which it writes when it ends, and not when it is killed."""
        for line in reversed(conversation.splitlines()):
            if _COST_STATE in line:
                with suppress(ValueError):
                    said = loads(line)
                    if isinstance(said, dict):
                        return _totals({**said, "total_cost_usd": said.get("totalCostUSD")})
        return None

    def conversation_id(self, session: Session) -> str | None:
        """Its own id, which is ours in the form it demands."""
        return session.agent_session_id or session_uuid(session.id)


AGENT = Claude()


def _session_flags(session: Session | None) -> tuple[str, ...]:
    if session is None:
        return ()
    if session.resumed:
        return "--resume", session.agent_session_id or session_uuid(session.id)
    return "--session-id", session_uuid(session.id)


def _conflict(complaint: str) -> SessionConflict | None:
    if _IN_USE in complaint:
        return "in_use"
    return "unknown" if _UNKNOWN in complaint else None


def _totals(said: dict[str, Any]) -> Usage | None:
    """What the session cost so far, all models together: a resumed session goes on counting."""
    cost, models = said.get("total_cost_usd"), said.get("modelUsage")
    if not isinstance(cost, int | float) or not isinstance(models, dict):
        return None
    each = [model for model in models.values() if isinstance(model, dict)]

    def total(name: str) -> int:
        return clamped_count(sum(clamped_count(model.get(name)) for model in each))

    return Usage(
        input_tokens=total("inputTokens"),
        output_tokens=total("outputTokens"),
        cache_read_tokens=total("cacheReadInputTokens"),
        cache_write_tokens=total("cacheCreationInputTokens"),
        cost_usd=clamped_cost(cost),
    )


def _context(stdout: OutputBuffer) -> int | None:
    """The size of the model's last request and answer in this conversation, in tokens."""
    last = last_object(
        stdout,
        lambda event: event.get("type") == "assistant" and event.get("parent_tool_use_id") is None,
    )
    message = last.get("message") if last else None
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    size = sum(clamped_count(usage.get(name)) for name in (*names, "output_tokens"))
    return clamped_count(size) or None


def _counted(message: Any) -> Usage:
    """The tokens of one answer."""
    usage = message.get("usage") if isinstance(message, dict) else None
    told = usage if isinstance(usage, dict) else {}
    return Usage(
        input_tokens=clamped_count(told.get("input_tokens")),
        output_tokens=clamped_count(told.get("output_tokens")),
        cache_read_tokens=clamped_count(told.get("cache_read_input_tokens")),
        cache_write_tokens=clamped_count(told.get("cache_creation_input_tokens")),
    )


def _denials(said: dict[str, Any]) -> list[str]:
    denials = said.get("permission_denials")
    if not isinstance(denials, list):
        return []
    named = [
        words(d.get("tool_name") if isinstance(d, dict) else d)[:_NAME_CHARACTERS] or "a tool"
        for d in denials[:_NAMED_TOOLS]
    ]
    more = len(denials) - len(named)
    return [*named, f"{more} more"] if more else named
