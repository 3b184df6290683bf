"""Orbiter's own agents: `orbiter exec`, which prints the same kind of object as Claude Code."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orbiter_contracts import Usage, clamped_cost, clamped_count
from worker_wrapper.agents.base import AgentResult, Heard, Piece, Session, Spent, Turn
from worker_wrapper.agents.decoding import words
from worker_wrapper.agents.json_output import find_result, read_result
from worker_wrapper.agents.mcp import Variables, usual
from worker_wrapper.process.command import Command, Outcome

_UNKNOWN = "No conversation found"


class Orbiter:
    """Adapter for `orbiter exec`."""

    name = "orbiter"
    program = "orbiter"
    credentials = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
    )
    passes = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "AGENT_FILE", "TASK_ATTEMPT")
    session_paths = (".orbiter/sessions",)
    home_variable = None
    instructions_path = None
    skills_path = None
    ignores = ()
    resumes_mid_turn = True

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        options, session, given = turn.options, turn.session, Variables()
        servers = json.dumps({"mcpServers": usual(turn.mcp, given)})
        flags = {
            "--model": options.model,
            "--max-turns": options.max_turns,
            "--max-cost-usd": options.max_cost_usd,
            "--system-prompt": options.system_prompt,
            "--mcp-config": servers if turn.mcp else None,
            "--resume" if session and session.resumed else "--session-id": session and session.id,
        }
        said = [(flag, str(value)) for flag, value in flags.items() if value is not None]
        return Command(
            argv=(
                *(self.program, "exec"),
                *(("--stream",) if turn.stream else ()),
                *(("--again",) if turn.again else ()),
                *(word for pair in said for word in pair),
            ),
            stdin=turn.prompt.encode("utf-8", "replace"),
            env=given.env,
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the one JSON object that it ends with."""
        said = find_result(outcome.stdout)
        if said is None:
            unknown = _UNKNOWN in outcome.complaint
            return AgentResult(is_error=True, session_conflict="unknown" if unknown else None)
        result = read_result(said)
        cost = clamped_cost(said.get("cost_usd"))
        if result.usage is not None:
            result.usage = result.usage.model_copy(update={"cost_usd": cost})
        return replace(result, requests=result.turns)

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """It says its text as the model sends it; a step begins something new."""
        if event.get("type") == "step":
            return Piece("", opens=True)
        if event.get("type") != "text":
            return None
        return Piece(words(event.get("text")))

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """The framework's own events have the names and the fields of a transcript's."""
        kind, text = event.get("type"), words(event.get("text"))
        tool, call = words(event.get("tool_name")), words(event.get("tool_call_id"))
        match kind:
            case "text" | "thinking":
                return (Heard(kind, text),)
            case "step":
                return (Heard("text", opens=True),)
            case "tool_call":
                arguments = event.get("arguments")
                return (Heard("tool_call", tool=tool, call=call, arguments=arguments),)
            case "tool_result":
                error, content = event.get("error"), words(event.get("content"))
                said, failed = words(error) or content, error is not None
                return (Heard("tool_result", said, tool=tool, call=call, failed=failed),)
            case "error":
                return (Heard("error", words(event.get("error"))),)
        return ()

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """It says after each answer what all of them have cost."""
        if event.get("type") != "spent":
            return None
        told, cost = event.get("usage"), clamped_cost(event.get("cost_usd"))
        counts = told if isinstance(told, dict) else {}
        return Spent(
            Usage(
                input_tokens=clamped_count(counts.get("input_tokens")),
                output_tokens=clamped_count(counts.get("output_tokens")),
                cache_read_tokens=clamped_count(counts.get("cache_read_input_tokens")),
                cost_usd=cost,
                turns=clamped_count(event.get("num_turns")),
            )
        )

    def began(self, event: Mapping[str, Any]) -> str | None:
        """It takes our id."""
        return None

    def recorded(self, conversation: bytes) -> Usage | None:
        """Each of its turns tells its own cost."""
        return None

    def conversation_id(self, session: Session) -> str | None:
        """Its own id names its file."""
        return session.id


AGENT = Orbiter()
