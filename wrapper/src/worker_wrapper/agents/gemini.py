"""Google's gemini CLI without a terminal. Checked against the real CLI, version 0.61.0."""

import json
import re
from collections.abc import Mapping
from typing import Any

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import (
    AgentResult,
    Heard,
    Piece,
    Session,
    SessionConflict,
    Spent,
    Turn,
)
from worker_wrapper.agents.decoding import name, session_uuid, words
from worker_wrapper.agents.json_output import LastWords, objects
from worker_wrapper.agents.mcp import Variables, usual
from worker_wrapper.process.command import Command, Outcome

_START = (
    'export GEMINI_CLI_HOME="$HOME/.worker-wrapper/gemini"; d="$GEMINI_CLI_HOME/.gemini"; '
    'mkdir -p "$d" && rm -rf "$d/settings.json" && printf %s "$1" > "$d/settings.json" '
    '&& shift && exec gemini "$@"'
)
"""What it may do in silence is said in a file alone. The file is in a home of its own, so that it
is in nobody's way where the worker has a person's home."""
_IN_USE = "already exists. Use --resume"
_UNKNOWN = ("Invalid session identifier", "No previous sessions found")
_INLINES = re.compile(r"(?<!\\)@(?=\S)")
_LITERAL = r"In this message \@ stands for a plain @."
_IN_NAMES = 8
"""How much of the id stands in a conversation's file name."""


class Gemini:
    """Adapter for `gemini -o stream-json`."""

    name = "gemini"
    program = "gemini"
    credentials = ("GEMINI_API_KEY",)
    passes = ("GOOGLE_GEMINI_BASE_URL",)
    session_paths = (".worker-wrapper/gemini/.gemini/tmp",)
    home_variable = None
    instructions_path = ".worker-wrapper/gemini/.gemini/GEMINI.md"
    skills_path = ".worker-wrapper/gemini/.gemini/skills"
    ignores = ("max_cost_usd",)
    resumes_mid_turn = True

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        options, given = turn.options, Variables()
        # It goes through what is given once more, and takes a `$` there for a variable, too.
        servers = usual(turn.mcp, given, url="httpUrl", typed=False, escape=_escaped)
        # It has no flag for a system prompt: the words go in front of the message.
        prompt = "\n\n".join(part for part in (options.system_prompt, turn.prompt) if part)
        return Command(
            argv=(
                *("sh", "-c", _START, self.program, _settings(options.max_turns, servers)),
                *_session_flags(turn.session),
                *("-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"),
                *(("-m", options.model) if options.model else ()),
            ),
            stdin=_literal(prompt).encode("utf-8", "replace"),
            # Otherwise it starts itself once more, to have a larger heap.
            env={"GEMINI_CLI_NO_RELAUNCH": "true", **given.env},
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the events, one a line."""
        result = AgentResult(is_error=True)
        text, before, requests = LastWords(), "", 1
        for event in objects(outcome.stdout):
            kind = words(event.get("type"))
            if kind == "init":
                result.agent_session_id = name(event.get("session_id"))
            elif kind == "message" and event.get("role") == "assistant":
                text.say(words(event.get("content")), opens=before != "message")
            elif kind == "tool_use" and before != "tool_use":
                requests += 1
            elif kind == "error":
                result.error = words(event.get("message")) or result.error
            elif kind == "result":
                result.is_error = event.get("status") != "success"
                result.error = _error(event) or result.error if result.is_error else None
                result.usage = _usage(event.get("stats"))
                result.turns = 1
            before = kind
        result.text, result.requests = str(text), requests
        if not result.turns:
            result.session_conflict = _conflict(outcome.complaint)
        return result

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """It says its text as the model sends it; a tool call begins something new."""
        if event.get("type") == "tool_use":
            return Piece("", opens=True)
        if event.get("type") != "message" or event.get("role") != "assistant":
            return None
        return Piece(words(event.get("content")))

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Text as it comes, calls and their results."""
        call = words(event.get("tool_id"))
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                return (Heard("text", words(event.get("content"))),)
            case "tool_use":
                tool, arguments = words(event.get("tool_name")), event.get("parameters")
                return (Heard("tool_call", tool=tool, call=call, arguments=arguments),)
            case "tool_result":
                failed = event.get("status") == "error"
                text = (_error(event) if failed else "") or words(event.get("output"))
                return (Heard("tool_result", text, call=call, failed=failed),)
            case "error":
                return (Heard("error", words(event.get("message"))),)
        return ()

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """It tells only at the end."""
        return None

    def began(self, event: Mapping[str, Any]) -> str | None:
        """It takes our id."""
        return None

    def recorded(self, conversation: bytes) -> Usage | None:
        """Each of its turns tells its own cost."""
        return None

    def conversation_id(self, session: Session) -> str | None:
        """The beginning of its own id, which is ours in the form it demands."""
        return (session.agent_session_id or session_uuid(session.id))[:_IN_NAMES]


AGENT = Gemini()


def _escaped(value: str) -> str:
    return value.replace("$", "\\$")


def _settings(max_turns: int | None, servers: dict[str, Any]) -> str:
    """The file: nothing is reported, asked or renewed."""
    general = {
        "enableAutoUpdate": False,
        "enableAutoUpdateNotification": False,
        # Ten attempts at a refused request take minutes.
        "maxAttempts": 3,
    }
    settings: dict[str, Any] = {
        # With an address of its own it would take another way than the key's, and refuse it.
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": general,
    }
    if max_turns is not None:
        settings["model"] = {"maxSessionTurns": max_turns}
    if servers:
        settings["mcpServers"] = servers
    return json.dumps(settings)


def _session_flags(session: Session | None) -> tuple[str, ...]:
    if session is None:
        return ()
    if session.resumed:
        return "--resume", session.agent_session_id or session_uuid(session.id)
    return "--session-id", session_uuid(session.id)


def _literal(prompt: str) -> str:
    """The prompt with no `@path` in it, whose file would be pulled into the conversation."""
    if not _INLINES.search(prompt):
        return prompt
    return f"{_LITERAL}\n\n{_INLINES.sub(lambda _: chr(92) + '@', prompt)}"


def _conflict(complaint: str) -> SessionConflict | None:
    if _IN_USE in complaint:
        return "in_use"
    return "unknown" if any(said in complaint for said in _UNKNOWN) else None


def _error(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    return words(error.get("message") if isinstance(error, dict) else error)


def _usage(stats: object) -> Usage | None:
    """What this turn cost, all models together; its `input_tokens` include the cached ones."""
    if not isinstance(stats, dict):
        return None
    sent, cached = clamped_count(stats.get("input_tokens")), clamped_count(stats.get("cached"))
    # Thoughts are in the total only.
    thought = clamped_count(stats.get("total_tokens")) - sent
    return Usage(
        input_tokens=max(0, sent - cached),
        output_tokens=max(0, thought, clamped_count(stats.get("output_tokens"))),
        cache_read_tokens=cached,
    )
