"""`opencode run`, with Anthropic's or OpenAI's API. Checked against the real CLI, 1.18.33."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orbiter_contracts import Usage, clamped_cost, clamped_count
from worker_wrapper.agents.base import AgentResult, Heard, Piece, Session, Spent, Turn
from worker_wrapper.agents.decoding import name, words
from worker_wrapper.agents.json_output import LastWords, objects
from worker_wrapper.agents.mcp import Server
from worker_wrapper.process.command import Command, Outcome

_START = (
    'c="${XDG_CONFIG_HOME:-$HOME/.config}/opencode"; '
    '[ -e "$c" ] || { mkdir -p "$c/node_modules" && printf %s "$1" > "$c/package-lock.json"; }; '
    'shift; exec opencode "$@"'
)
"""Into a directory of settings it fetches a library for plugins, unless that seems to be there."""
_LOCK = json.dumps({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}})
_UNKNOWN = "Session not found"
_PROVIDERS = {"anthropic": "ANTHROPIC", "openai": "OPENAI"}


class Opencode:
    """Adapter for `opencode run --format json`."""

    name = "opencode"
    program = "opencode"
    credentials = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    passes = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")
    session_paths = (
        ".local/share/opencode/opencode.db",
        ".local/share/opencode/opencode.db-wal",
    )
    home_variable = None
    instructions_path = ".claude/CLAUDE.md"
    skills_path = ".claude/skills"
    ignores = ("max_turns", "max_cost_usd")
    resumes_mid_turn = True

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        session = turn.session.agent_session_id if turn.session else None
        model = _model(turn.options.model, turn.environ)
        # It has no flag for a system prompt: the words go in front of the message.
        prompt = "\n\n".join(part for part in (turn.options.system_prompt, turn.prompt) if part)
        return Command(
            argv=(
                *("sh", "-c", _START, self.program, _LOCK),
                # With a title it asks no model for one.
                *("run", "--format", "json", "--title", "task", "--auto"),
                *(("-m", model) if model else ()),
                *(("-s", session) if session else ()),
            ),
            stdin=prompt.encode("utf-8", "replace"),
            env={
                "OPENCODE_CONFIG_CONTENT": _written(
                    _config(model, turn.environ) | _servers(turn.mcp)
                ),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
            },
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the events, one a line."""
        result = AgentResult(is_error=True)
        text, message = LastWords(), ""
        last: Usage | None = None
        for event in objects(outcome.stdout):
            kind, part = event.get("type"), _part(event)
            result.agent_session_id = name(event.get("sessionID")) or result.agent_session_id
            if kind == "text":
                new, message = message, words(part.get("messageID"))
                text.say(words(part.get("text")), opens=new != message)
            elif kind == "step_finish":
                last = _usage(part)
                result.usage = _together(result.usage, last)
                result.turns += 1
                result.is_error, result.error = part.get("reason") == "tool-calls", None
            elif kind == "error":
                result.is_error, result.error = True, _error(event)
        result.text, result.requests = str(text), result.turns
        if last is not None:
            result.context_tokens = _context(last)
        elif _UNKNOWN in outcome.complaint:
            result.session_conflict = "unknown"
        return result

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """It says whole messages only."""
        if event.get("type") != "text":
            return None
        return Piece(words(_part(event).get("text")), opens=True)

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Whole messages; of a call it tells when it has ended, with all there was to it."""
        part = _part(event)
        match event.get("type"):
            case "text":
                return (Heard("text", words(part.get("text")), opens=True),)
            case "reasoning":
                return (Heard("thinking", words(part.get("text")), opens=True),)
            case "tool_use":
                return (_call(part),)
            case "error":
                return (Heard("error", _error(event)),)
        return ()

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """It says after each answer what that one has cost."""
        if event.get("type") != "step_finish":
            return None
        return Spent(_usage(_part(event)), opens=True)

    def began(self, event: Mapping[str, Any]) -> str | None:
        """Every event names the session."""
        return name(event.get("sessionID"))

    def recorded(self, conversation: bytes) -> Usage | None:
        """Each of its turns tells its own cost."""
        return None

    def conversation_id(self, session: Session) -> str | None:
        """The session's id, which it gives itself; all of them are in one file."""
        return session.agent_session_id


AGENT = Opencode()


def _model(wanted: str | None, environ: Mapping[str, str]) -> str | None:
    """The model with its provider before it, the one there is a key for unless it is said."""
    if wanted is None or "/" in wanted:
        return wanted
    keys = [provider for provider, begin in _PROVIDERS.items() if environ.get(f"{begin}_API_KEY")]
    return f"{(*keys, 'anthropic')[0]}/{wanted}"


def _config(model: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Nothing is shared or renewed, and no provider is asked but those that there are keys for."""
    providers: dict[str, dict[str, Any]] = {}
    for provider, begin in _PROVIDERS.items():
        if environ.get(f"{begin}_API_KEY"):
            providers[provider] = {}
            if url := environ.get(f"{begin}_BASE_URL"):
                providers[provider] = {"options": {"baseURL": _versioned(provider, url)}}
    config: dict[str, Any] = {"autoupdate": False, "share": "disabled", "snapshot": False}
    if model:
        provider, _, its_name = model.partition("/")
        # A model of one's own is none that it has heard of.
        providers.setdefault(provider, {})["models"] = {its_name: {}}
        config |= {"model": model, "small_model": model}
    return config | {"enabled_providers": sorted(providers), "provider": providers}


def _servers(servers: Iterable[Server]) -> dict[str, Any]:
    """What it is told of MCP servers, in its own words."""
    entries: dict[str, Any] = {}
    for each in servers:
        if each.url is not None:
            of = {"type": "remote", "url": each.url, "headers": dict(each.headers), "oauth": False}
        else:
            command = [each.command, *each.args]
            of = {"type": "local", "command": command, "environment": dict(each.env)}
        entries[each.name] = {**of, "enabled": True}
    return {"mcp": entries} if entries else {}


def _written(config: dict[str, Any]) -> str:
    """As JSON, in which it finds no `{env:NAME}` and no `{file:PATH}` to put something in."""
    text = json.dumps(config)
    return text.replace("{env:", "\\u007benv:").replace("{file:", "\\u007bfile:")


def _versioned(provider: str, url: str) -> str:
    """Anthropic's address as Claude Code takes it has no version; here it needs one."""
    plain = url.rstrip("/")
    return plain if provider != "anthropic" or plain.endswith("/v1") else f"{plain}/v1"


def _part(event: Mapping[str, Any]) -> dict[str, Any]:
    part = event.get("part")
    return part if isinstance(part, dict) else {}


def _call(part: Mapping[str, Any]) -> Heard:
    found = part.get("state")
    state = found if isinstance(found, dict) else {}
    failed, asked = state.get("status") == "error", state.get("input")
    return Heard(
        "tool_result",
        words(state.get("error")) if failed else words(state.get("output")),
        tool=words(part.get("tool")),
        call=words(part.get("callID")),
        arguments=asked if asked is not None else {},
        failed=failed,
        seconds=_seconds(state.get("time")),
    )


def _seconds(times: object) -> float | None:
    start, end = (times.get("start"), times.get("end")) if isinstance(times, dict) else (None, None)
    return max(clamped_count(end) - clamped_count(start), 0) / 1000 if start and end else None


def _error(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    told = error if isinstance(error, dict) else {}
    data = told.get("data")
    said = words(data.get("message")) if isinstance(data, dict) else ""
    return said or words(told.get("name")) or "opencode failed without a word"


def _usage(part: Mapping[str, Any]) -> Usage:
    """The tokens of one answer of the model; thoughts are no part of its `output`."""
    tokens = part.get("tokens")
    told = tokens if isinstance(tokens, dict) else {}
    found = told.get("cache")
    cache = found if isinstance(found, dict) else {}
    said = clamped_count(told.get("output")) + clamped_count(told.get("reasoning"))
    return Usage(
        input_tokens=clamped_count(told.get("input")),
        output_tokens=clamped_count(said),
        cache_read_tokens=clamped_count(cache.get("read")),
        cache_write_tokens=clamped_count(cache.get("write")),
        # Of a model that it has no price for it says 0.
        cost_usd=clamped_cost(part.get("cost")) or None,
    )


def _together(before: Usage | None, step: Usage) -> Usage:
    if before is None:
        return step
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    sums = {each: getattr(before, each) + getattr(step, each) for each in names}
    costs = [each.cost_usd for each in (before, step) if each.cost_usd is not None]
    return Usage(
        **{each: clamped_count(value) for each, value in sums.items()},
        cost_usd=clamped_cost(sum(costs)) if costs else None,
    )


def _context(step: Usage) -> int | None:
    sent = step.input_tokens + step.cache_read_tokens + step.cache_write_tokens
    return clamped_count(sent + step.output_tokens) or None
