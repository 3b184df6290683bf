"""Agents by name: `module:attr` of a Python module, or a YAML file.

A file describes one agent, or, with `agents`, a swarm of them:

    name: researcher
    model: anthropic:claude-sonnet-4-20250514
    instructions: You research topics and cite sources.
    tools: [my_tools:search_web]
    mcpServers:
      files: {command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", .]}
    handoffs: [writer.yaml]
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from orbiter import Agent, Swarm
from orbiter.cli.agent.objects import AgentFileError, load_object, load_output_type, load_tools
from orbiter.cli.agent.yaml_lines import line_of
from orbiter.config import DEFAULT_MAX_STEPS, DEFAULT_MODEL
from orbiter.types import OrbiterError

__all__ = ["AgentFile", "AgentFileError", "LoadedAgent", "SwarmFile", "load_agent"]
_SUFFIXES = (".yaml", ".yml")


class AgentFile(BaseModel):
    """What a file says of one agent; names and defaults are those of Agent.

    Attributes:
        tools: `module:attr` each: a Tool, a function, or a list of these; without a colon a
            built-in one, `workspace` for all that work on files and run commands.
        mcp_servers: By name, as MCP's config files have them.
        handoffs: Agents, by file or `module:attr`.
        output_type: `module:attr` of a pydantic model.
    """

    model_config = {"frozen": True, "extra": "forbid", "populate_by_name": True}

    name: str = Field(min_length=1)
    model: str = DEFAULT_MODEL
    instructions: str = ""
    tools: list[str] = []
    mcp_servers: dict[str, Any] = Field(default={}, alias="mcpServers")
    handoffs: list[str] = []
    output_type: str | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    temperature: float = 1.0
    max_tokens: int | None = None


class SwarmFile(BaseModel):
    """What a file says of a swarm; `agents` are files, `module:attr`, or written right there."""

    model_config = {"frozen": True, "extra": "forbid"}

    agents: list[str | AgentFile] = Field(min_length=1)
    flow: str | None = None
    mode: Literal["workflow", "team", "handoff"] = "workflow"


class LoadedAgent:
    """An agent or a swarm, and the MCP servers its agents use.

    `async with` starts the servers and gives their tools to the agents; without any it only gives
    the target.

    Attributes:
        target: What was loaded.
        servers: Each agent that uses MCP servers, with the servers' configuration.
    """

    def __init__(
        self, target: Agent | Swarm, servers: list[tuple[Agent, Mapping[str, Any]]]
    ) -> None:
        self.target = target
        self.servers = servers
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Agent | Swarm:
        """Start the servers and return the target.

        Raises:
            OrbiterError: A server cannot be reached, or orbiter-mcp is not installed.
        """
        async with AsyncExitStack() as stack:
            for agent, servers in self.servers:
                own = list(agent.tools)
                found = await stack.enter_async_context(_mcp_tools(servers))
                agent.tools = [*own, *found]
                stack.callback(setattr, agent, "tools", own)
            self._stack = stack.pop_all()
        return self.target

    async def __aexit__(self, *error: object) -> None:
        """Stop the servers."""
        await self._stack.aclose()


def load_agent(reference: str, *, model: str | None = None) -> LoadedAgent:
    """Load an agent.

    Args:
        reference: The path of a `.yaml` or `.yml` file, or `module:attr`. Modules are looked for
            in the working directory, too; those a file names also in the file's directory. The
            attribute is an Agent, a Swarm, or a function that returns one.
        model: Takes the place of all agents' own.

    Raises:
        AgentFileError: It cannot be loaded.
    """
    loader = _Loader()
    target = loader.load(reference, Path.cwd())
    if model is not None:
        for agent in _agents_of(target):
            agent.model = model
            agent.config = agent.config.model_copy(update={"model": model})
    return LoadedAgent(target, loader.servers)


class _Loader:
    def __init__(self) -> None:
        self.servers: list[tuple[Agent, Mapping[str, Any]]] = []
        self._open: list[Path] = []

    def load(self, reference: str, directory: Path) -> Agent | Swarm:
        if reference.endswith(_SUFFIXES):
            return self._from_file((directory / reference).resolve())
        found = load_object(reference, directory)
        if not isinstance(found, Agent | Swarm) and callable(found):
            found = found()
        if not isinstance(found, Agent | Swarm):
            raise AgentFileError(
                f"'{reference}' is a {type(found).__name__}, not an Agent or a Swarm"
            )
        return found

    def _from_file(self, file: Path) -> Agent | Swarm:
        if file in self._open:
            raise AgentFileError(f"{file} hands off to itself; write such agents in Python")
        self._open.append(file)
        try:
            data = _read(file)
            try:
                if "agents" in data:
                    return self._swarm(SwarmFile.model_validate(data), file.parent)
                return self._agent(AgentFile.model_validate(data), file.parent)
            except ValidationError as error:
                first = error.errors()[0]
                # A swarm's own names for its kinds of members are no keys of the file.
                place = [one for one in first["loc"] if one not in ("str", "AgentFile")]
                where = ".".join(map(str, place))
                line = line_of(file.read_text(encoding="utf-8"), place)
                raise AgentFileError(f"{file}:{line}: {where}: {first['msg']}") from error
            except AgentFileError:
                raise
            except OrbiterError as error:
                raise AgentFileError(f"{file}: {error}") from error
        finally:
            self._open.pop()

    def _swarm(self, written: SwarmFile, directory: Path) -> Swarm:
        agents = [
            self._member(one, directory) if isinstance(one, str) else self._agent(one, directory)
            for one in written.agents
        ]
        return Swarm(agents=agents, flow=written.flow, mode=written.mode)

    def _agent(self, written: AgentFile, directory: Path) -> Agent:
        agent = Agent(
            name=written.name,
            model=written.model,
            instructions=written.instructions,
            tools=[t for name in written.tools for t in load_tools(name, directory)],
            handoffs=[self._member(name, directory) for name in written.handoffs],
            output_type=load_output_type(written.output_type, directory),
            max_steps=written.max_steps,
            temperature=written.temperature,
            max_tokens=written.max_tokens,
        )
        if written.mcp_servers:
            self.servers.append((agent, written.mcp_servers))
        return agent

    def _member(self, reference: str, directory: Path) -> Agent:
        found = self.load(reference, directory)
        if not isinstance(found, Agent):
            raise AgentFileError(f"'{reference}' is a Swarm; only an Agent can stand there")
        return found


def _read(file: Path) -> dict[str, Any]:
    import yaml

    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise AgentFileError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AgentFileError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise AgentFileError(f"{file} describes no agent: it has to begin with `name:`")
    return data


def _agents_of(target: Agent | Swarm) -> list[Agent]:
    waiting = list(target.agents) if isinstance(target, Swarm) else [target]
    seen: dict[int, Agent] = {}
    while waiting:
        agent = waiting.pop()
        if id(agent) not in seen:
            seen[id(agent)] = agent
            waiting += agent.handoffs
    return list(seen.values())


def _mcp_tools(servers: Mapping[str, Any]) -> Any:
    try:
        from orbiter.mcp import mcp_tools
    except ModuleNotFoundError as error:
        if error.name != "orbiter.mcp":
            raise
        raise AgentFileError("mcpServers need the extra: orbiter-cli[mcp]") from error
    return mcp_tools({"mcpServers": dict(servers)})
