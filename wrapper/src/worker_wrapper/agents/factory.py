"""Factory's `droid exec`. Checked against the real CLI, version 0.215.0."""

import json
from collections.abc import Mapping
from typing import Any

from orbiter_contracts import Usage
from worker_wrapper.agents.base import AgentResult, Heard, Piece, Session, Spent, Turn
from worker_wrapper.agents.decoding import name, words
from worker_wrapper.agents.json_output import find_result, last_object, read_result
from worker_wrapper.agents.mcp import Variables, usual
from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.output_buffer import OutputBuffer

_SERVERS, _SETTINGS = "mcp.json", "settings.json"
_WITH_FILES = (
    'h="$HOME/.worker-wrapper/factory"; d="$h/.factory"; mkdir -p "$d" "$HOME/.factory/sessions"; '
    f'rm -f "$d/{_SERVERS}" "$d/{_SETTINGS}"; '
    'for f in "$HOME/.factory/"*; do ln -sfn "$f" "$d/"; done; '
    'while [ "$1" != -- ]; do '
    'rm -f "$d/$1" && printf %s "$2" > "$d/$1" && shift 2 || exit 1; done; '
    'shift; FACTORY_HOME_OVERRIDE="$h" exec droid "$@"'
)
"""It reads of MCP servers and of models of one's own in files of its home alone. That is a home of
its own, to be in nobody's way where the worker has a person's; all else there is what is in the
usual one."""
_OWN_MODEL = "custom:worker"
_VENDORS = {
    "openai": ("OPENAI", "generic-chat-completion-api"),
    "anthropic": ("ANTHROPIC", "anthropic"),
}
"""How the variables of a vendor's API begin, and what droid calls that API."""


class Factory:
    """Adapter for `droid exec -o json`."""

    name = "factory"
    program = "droid"
    credentials = ("FACTORY_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    passes = ("FACTORY_MODEL", "FACTORY_API_BASE_URL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")
    session_paths = (".factory/sessions",)
    home_variable = None
    instructions_path = ".factory/AGENTS.md"
    skills_path = ".factory/skills"
    ignores = ("max_turns", "max_cost_usd")
    resumes_mid_turn = False

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        given = Variables()
        model, files = turn.options.model or turn.environ.get("FACTORY_MODEL"), []
        if turn.mcp:
            files += [_SERVERS, json.dumps({"mcpServers": usual(turn.mcp, given)})]
        if own := _own_model(model, turn.environ):
            model = _OWN_MODEL
            files += [_SETTINGS, json.dumps({"customModels": [own]})]
        start = ("sh", "-c", _WITH_FILES, self.program, *files, "--") if files else (self.program,)
        flags = {
            "-m": model,
            "--append-system-prompt": turn.options.system_prompt,
            # `-s` ends without a word and exit code 1; a fork continues the conversation just as
            # well, under a new id that is reported back.
            "--fork": turn.session.agent_session_id if turn.session else None,
        }
        said = [(flag, value) for flag, value in flags.items() if value]
        return Command(
            argv=(
                *(*start, "exec", "-o", "stream-json" if turn.stream else "json"),
                *("--auto", "high", "--cwd", str(turn.workdir)),
                *(word for pair in said for word in pair),
            ),
            stdin=turn.prompt.encode("utf-8", "replace"),
            env={
                "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
                "FACTORY_OTEL_ENABLED": "false",
                **given.env,
            },
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the one JSON object that it ends with."""
        said = find_result(outcome.stdout) or _completion(outcome.stdout)
        if said is not None:
            return read_result(said)
        # An unknown session is refused in silence.
        silent = outcome.exit_code == 1 and not outcome.stdout.size and not outcome.complaint
        return AgentResult(is_error=True, session_conflict="unknown" if silent else None)

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """It says whole messages only."""
        if event.get("type") != "message" or event.get("role") != "assistant":
            return None
        return Piece(words(event.get("text")), opens=True)

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Whole messages, calls and their results."""
        call = words(event.get("id"))
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                return (Heard("text", words(event.get("text")), opens=True),)
            case "reasoning":
                return (Heard("thinking", words(event.get("text")), opens=True),)
            case "tool_call":
                tool, arguments = words(event.get("toolName")), event.get("parameters")
                return (Heard("tool_call", tool=tool, call=call, arguments=arguments),)
            case "tool_result":
                error = event.get("error")
                failed = event.get("isError") is True
                said = words(error.get("message") if isinstance(error, dict) else error)
                text = (said if failed else "") or words(event.get("value"))
                return (Heard("tool_result", text, call=call, failed=failed),)
            case "error":
                return (Heard("error", words(event.get("message")) or "droid failed"),)
        return ()

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """It tells only at the end."""
        return None

    def began(self, event: Mapping[str, Any]) -> str | None:
        """Every event names the session."""
        return name(event.get("session_id"))

    def recorded(self, conversation: bytes) -> Usage | None:
        """Each of its turns tells its own cost."""
        return None

    def conversation_id(self, session: Session) -> str | None:
        """The id of the last fork, which it gives itself."""
        return session.agent_session_id


AGENT = Factory()


def _own_model(wanted: str | None, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """A model at an address of one's own, as its settings have one; None: it is Factory's.

    It asks such a model without Factory. What `apiKey` names it takes of its environment.
    """
    if wanted is None or wanted.startswith("custom:"):
        return None  # of settings that the home has already
    vendor, _, model = wanted.partition("/")
    known = (vendor,) if vendor in _VENDORS and model else tuple(_VENDORS)
    for each in known:
        begin, api = _VENDORS[each]
        if url := environ.get(f"{begin}_BASE_URL", "").rstrip("/"):
            return {
                "id": _OWN_MODEL,
                "model": model if known == (vendor,) else wanted,
                "displayName": wanted,
                # To Anthropic's address it adds the version itself.
                "baseUrl": url.removesuffix("/v1") if each == "anthropic" else url,
                "apiKey": f"${{{begin}_API_KEY}}",
                "provider": api,
            }
    return None


def _completion(stdout: OutputBuffer) -> dict[str, Any] | None:
    """What a stream ends with, in the words of the one object."""
    said = last_object(stdout, lambda event: event.get("type") == "completion")
    if said is None:
        return None
    return said | {"result": said.get("finalText"), "num_turns": said.get("numTurns")}
