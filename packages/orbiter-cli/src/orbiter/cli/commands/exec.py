"""`orbiter exec`: one turn of an agent for programs, as the worker wrapper runs it.

The prompt comes on standard input; the answer leaves as one JSON object on standard output, after
the agent's events with `--stream`. What was said is kept under `~/.orbiter/sessions`, so the next
turn of the session goes on there, also in another container that was given the directory. An agent
that calls `ask_user` ends its turn with the question; the next prompt is the answer.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.outcome import ExitCode, UsageError, ends

if TYPE_CHECKING:
    from orbiter import Agent
    from orbiter.cli.agent.turn import Turn

FILE_VARIABLE = "AGENT_FILE"
ATTEMPT_VARIABLE = "TASK_ATTEMPT"
_DIGITS = 10
WORKSPACE_FILE = ".orbiter/agent.yaml"
"""The agent of a workspace, when nothing else says which one is meant."""
INSTRUCTIONS = """You are a software engineer who works alone in a workspace, the current \
directory. Look before you change, check what you did by running it, and say in the end what you \
did and found. Ask only when you cannot go on without an answer."""
_MAX_STEPS = 200
_MODELS = (
    (("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "anthropic:claude-sonnet-4-5"),
    (("OPENAI_API_KEY",), "openai:gpt-4o"),
)


@ends
def exec_(
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="AGENT", help="A YAML file, or module:attr."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="provider:name, instead of the agent's own.")
    ] = None,
    system_prompt: Annotated[
        str | None, typer.Option(help="Added to the agent's own instructions.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Model calls at most.")] = None,
    max_cost_usd: Annotated[float | None, typer.Option(help="US dollars at most.")] = None,
    session_id: Annotated[str | None, typer.Option(help="Session to begin or go on with.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Session to go on with; it must be there.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print events as they come, a line of JSON each.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="A turn that was cut off had this prompt."),
    ] = False,
    mcp_config: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="More MCP servers, as MCP's config files have them."),
    ] = None,
) -> int:
    """Run one turn of an agent for a program: prompt on stdin, one JSON object on stdout.

    The agent is --file, else $AGENT_FILE, else .orbiter/agent.yaml, else an engineer with a shell
    and the files of this directory, without a sandbox.

    What was said is kept in ~/.orbiter/sessions. A turn may end with a question; the next prompt of
    the session is the answer. Ends with 0, or 1 when the object says is_error.
    """
    import asyncio

    from orbiter.cli.agent.turn import Turn

    prompt = sys.stdin.buffer.read().decode("utf-8", "replace").strip()
    if not prompt:
        raise UsageError("there is no prompt on standard input")
    attempt = os.environ.get(ATTEMPT_VARIABLE, "")
    turn = Turn(
        prompt=prompt,
        session_id=resume or session_id,
        must_exist=resume is not None,
        max_cost_usd=max_cost_usd,
        stream=stream,
        home=Path(os.environ.get("HOME") or "~").expanduser(),
        attempt=int(attempt) if attempt.isdecimal() and len(attempt) < _DIGITS else None,
        again=again,
    )
    servers = _servers(mcp_config)
    return asyncio.run(_turn(turn, file, model, system_prompt, max_turns, servers))


def _servers(config: str | None) -> dict[str, Any]:
    """The servers of `--mcp-config`, by name."""
    import json

    try:
        servers = json.loads(config)["mcpServers"] if config is not None else {}
    except (ValueError, LookupError, TypeError):
        servers = None
    if not isinstance(servers, dict):
        raise UsageError('--mcp-config has to be JSON: {"mcpServers": {…}}')
    return servers


async def _turn(
    turn: "Turn",
    file: str | None,
    model: str | None,
    extra: str | None,
    max_turns: int | None,
    servers: dict[str, Any],
) -> int:
    import json

    from orbiter import Swarm
    from orbiter.cli.agent.loading import LoadedAgent, load_agent

    source = file or os.environ.get(FILE_VARIABLE) or _of_workspace()
    if source is None:
        loaded = LoadedAgent(default_agent(model), [])
    else:
        loaded = load_agent(source, model=model and _full_name(model))
    agent = loaded.target
    if isinstance(agent, Swarm):
        raise UsageError(f"{source} is a swarm; a worker runs an agent")
    if servers:
        loaded.servers.append((agent, servers, Path("--mcp-config")))
    async with loaded:
        said = await turn.run(_prepared(agent, extra, max_turns))
    sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\n")
    return ExitCode.FAILED if said["is_error"] else ExitCode.OK


def default_agent(model: str | None = None) -> "Agent":
    """The agent when no file describes one: it works on the files of the directory.

    Args:
        model: By default one of the provider whose key is in the environment.
    """
    from orbiter import Agent
    from orbiter.cli.agent.workspace_tools import WORKSPACE, ask_user

    return Agent(
        name="orbiter",
        model=_full_name(model) if model else _default_model(),
        instructions=INSTRUCTIONS,
        tools=[*WORKSPACE, ask_user],
        max_steps=_MAX_STEPS,
    )


def _full_name(model: str) -> str:
    """`claude-…` alone means the provider whose key is there."""
    return model if ":" in model else f"{_default_model().partition(':')[0]}:{model}"


def _default_model() -> str:
    for variables, model in _MODELS:
        if any(os.environ.get(name) for name in variables):
            return model
    keys = ", ".join(name for variables, _ in _MODELS for name in variables)
    raise UsageError(f"no model's key is set: set one of {keys}, or name a model with its provider")


def _of_workspace() -> str | None:
    return WORKSPACE_FILE if Path(WORKSPACE_FILE).is_file() else None


def _prepared(agent: "Agent", extra: str | None, max_turns: int | None) -> "Agent":
    if extra is not None:
        own: Any = agent.instructions
        if callable(own):
            raise UsageError("the agent makes its instructions itself: leave out --system-prompt")
        agent.instructions = f"{own}\n\n{extra}".strip()
    if max_turns is not None:
        agent.max_steps = max_turns
    return agent
