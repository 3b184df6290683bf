"""OpenAI's `codex exec`. Checked against the real CLI, version 0.169.0."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from orbiter_contracts import Usage, clamped_count
from worker_wrapper.agents.base import (
    AgentResult,
    Heard,
    HeardKind,
    Piece,
    Session,
    Spent,
    Turn,
)
from worker_wrapper.agents.decoding import loads, name, words
from worker_wrapper.agents.json_output import objects
from worker_wrapper.agents.mcp import Server, Variables
from worker_wrapper.process.command import Command, Outcome

_FLAGS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_UNKNOWN = "no rollout found"
_ASKED = ("command", "changes", "arguments", "query", "items")
"""What of an item says what it is to do."""
_MALFORMED = "http://openai-base-url-is-malformed.invalid"
"""Its own words about a server that cannot be reached name the address."""
_TOKEN_COUNT = b'"total_token_usage"'
_STARTUP_SECONDS = 60
"""How long an MCP server may take to begin; one that is fetched first takes a while."""


class Codex:
    """Adapter for `codex exec --json`."""

    name = "codex"
    program = "codex"
    credentials = ("OPENAI_API_KEY", "CODEX_API_KEY")
    passes = ("OPENAI_BASE_URL", "CODEX_HOME")
    session_paths = (".codex/sessions",)
    home_variable = "CODEX_HOME"
    instructions_path = ".codex/AGENTS.md"
    skills_path = ".codex/skills"
    ignores = ("max_turns", "max_cost_usd")
    resumes_mid_turn = True

    def build(self, turn: Turn) -> Command:
        """Say which process runs this turn."""
        resumes = turn.session.agent_session_id if turn.session else None
        model, given = turn.options.model, Variables()
        # It has no flag for a system prompt: the words go in front of the message.
        prompt = "\n\n".join(part for part in (turn.options.system_prompt, turn.prompt) if part)
        return Command(
            argv=(
                *(self.program, "exec", *(("resume",) if resumes else ()), *_FLAGS),
                *(("-m", model) if model else ()),
                *_provider_flags(turn.environ),
                *(word for each in turn.mcp for word in _server_flags(each, given)),
                *((resumes,) if resumes else ()),
                "-",
            ),
            stdin=prompt.encode("utf-8", "replace"),
            env=_key(turn.environ) | given.env,
        )

    def parse(self, outcome: Outcome) -> AgentResult:
        """Read the events, one a line."""
        result = AgentResult(is_error=True)
        requests = 1
        for event in objects(outcome.stdout):
            kind, item, usage = event.get("type"), event.get("item"), event.get("usage")
            if kind == "thread.started":
                result.agent_session_id = name(event.get("thread_id"))
            elif kind == "item.completed" and isinstance(item, dict):
                if item.get("type") == "agent_message":
                    result.text = words(item.get("text"))
                elif item.get("type") != "reasoning":
                    requests += 1
            elif kind == "turn.completed":
                result.turns += 1
                result.is_error, result.error = False, None
                result.totals = _totals(usage) if isinstance(usage, dict) else None
            elif kind in ("error", "turn.failed"):
                result.error = _message(event)
                result.is_error = True
        result.requests = requests
        if _UNKNOWN in outcome.complaint:
            result.session_conflict = "unknown"
        return result

    def piece(self, event: Mapping[str, Any]) -> Piece | None:
        """It says whole messages only."""
        item = event.get("item")
        if event.get("type") != "item.completed" or not isinstance(item, dict):
            return None
        if item.get("type") != "agent_message":
            return None
        return Piece(words(item.get("text")), opens=True)

    def heard(self, event: Mapping[str, Any]) -> tuple[Heard, ...]:
        """Its items: some are told when they begin, all of them when they end."""
        item = event.get("item")
        if event.get("type") in ("error", "turn.failed"):
            return (Heard("error", _message(event)),)
        if event.get("type") not in ("item.started", "item.completed") or not isinstance(
            item, dict
        ):
            return ()
        return _heard(item, ended=event["type"] == "item.completed")

    def spent(self, event: Mapping[str, Any]) -> Spent | None:
        """It tells only at the end; its own file knows more."""
        return None

    def began(self, event: Mapping[str, Any]) -> str | None:
        """The first event names the thread."""
        return name(event.get("thread_id")) if event.get("type") == "thread.started" else None

    def recorded(self, conversation: bytes) -> Usage | None:
        """What it wrote down after the last answer that it had read."""
        for line in reversed(conversation.splitlines()):
            if _TOKEN_COUNT in line:
                # The agent may write there, too, whatever it likes.
                with suppress(ValueError, AttributeError, LookupError, TypeError):
                    return _totals(loads(line)["payload"]["info"]["total_token_usage"])
        return None

    def conversation_id(self, session: Session) -> str | None:
        """The thread's id, which it gives itself."""
        return session.agent_session_id


AGENT = Codex()


def _key(environ: Mapping[str, str]) -> dict[str, str]:
    """`codex exec` looks only at CODEX_API_KEY; people set OPENAI_API_KEY."""
    if "CODEX_API_KEY" in environ or "OPENAI_API_KEY" not in environ:
        return {}
    return {"CODEX_API_KEY": environ["OPENAI_API_KEY"]}


def _provider_flags(environ: Mapping[str, str]) -> tuple[str, ...]:
    """It ignores OPENAI_BASE_URL, so that server is named as a provider of its own."""
    url = environ.get("OPENAI_BASE_URL")
    if not url:
        return ()
    address = json.dumps(_without_secrets(url))
    provider = f'{{name="custom",base_url={address},env_key="CODEX_API_KEY"}}'
    return "-c", "model_provider=custom", "-c", f"model_providers.custom={provider}"


def _server_flags(server: Server, given: Variables) -> tuple[str, str]:
    """An MCP server, without which it is not to begin: else it begins before that one is ready."""
    entry: dict[str, Any] = {"required": True, "startup_timeout_sec": _STARTUP_SECONDS}
    if server.url is not None:
        headers = {name: given.name(value) for name, value in server.headers.items()}
        entry |= {"url": server.url, "env_http_headers": headers}
    else:
        # It hands variables on under their own names only, so a shell gives them their new ones.
        names = {name: given.name(value) for name, value in server.env.items()}
        lines = "".join(f'export {name}="${ours}"; ' for name, ours in names.items())
        shell: tuple[str, ...] = ("sh", "-c", f'{lines}exec "$0" "$@"') if names else ()
        command = [*shell, server.command or "", *server.args]
        entry |= {"command": command[0], "args": command[1:], "env_vars": [*names.values()]}
    return "-c", f"mcp_servers.{server.name}={_toml(entry)}"


def _toml(value: object) -> str:
    """A value as TOML has it in one line; texts are those of JSON there."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_toml(name)}={_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _without_secrets(url: str) -> str:
    """What of a URL may be an argument, which anybody may read who lists processes.

    The CLI sends its key in the place of a password, and what is behind a `?` before `/responses`,
    which no server takes: nothing that works is left out.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # For instance a `/` in a password: any part of it may be secret.
        return _MALFORMED
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _message(event: Mapping[str, object]) -> str:
    error = event.get("error")
    said = words(error.get("message") if isinstance(error, dict) else event.get("message"))
    return said or "codex failed without a word"


def _heard(item: dict[str, Any], *, ended: bool) -> tuple[Heard, ...]:
    kind, call = words(item.get("type")), words(item.get("id"))
    match kind:
        case "agent_message" | "reasoning":
            said: HeardKind = "text" if kind == "agent_message" else "thinking"
            return (Heard(said, words(item.get("text")), opens=True),) if ended else ()
        case "error":
            return (Heard("error", words(item.get("message"))),)
        case "mcp_tool_call":
            tool = f"{words(item.get('server'))}.{words(item.get('tool'))}"
        case _:
            tool = kind
    asked = {name: item[name] for name in _ASKED if item.get(name) is not None}
    arguments = asked.get("arguments", asked)
    if not ended:
        return (Heard("tool_call", tool=tool, call=call, arguments=arguments),)
    error = item.get("error")
    answer = words(error.get("message")) if isinstance(error, dict) else _answer(item)
    failed = item.get("status") == "failed" or isinstance(error, dict)
    return (Heard("tool_result", answer, tool=tool, call=call, arguments=arguments, failed=failed),)


def _answer(item: dict[str, Any]) -> str:
    code = item.get("exit_code")
    output, result = words(item.get("aggregated_output")), item.get("result")
    if isinstance(code, int) and code:
        return f"{output}\n[exit code {clamped_count(code)}]".lstrip()
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        blocks = (block for block in result["content"] if isinstance(block, dict))
        return "\n".join(filter(None, (words(block.get("text")) for block in blocks)))
    return output


def _totals(usage: dict[str, object]) -> Usage:
    """What the thread used so far; `input_tokens` there includes the cached ones."""
    cached = clamped_count(usage.get("cached_input_tokens"))
    return Usage(
        input_tokens=max(0, clamped_count(usage.get("input_tokens")) - cached),
        output_tokens=clamped_count(usage.get("output_tokens")),
        cache_read_tokens=cached,
        cache_write_tokens=clamped_count(usage.get("cache_write_input_tokens")),
    )
