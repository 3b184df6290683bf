"""Agents by name: `module:attr` of a Python module, or a YAML file; and all that belong to one."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from orbiter import Agent, Swarm, Tool
from orbiter.approval import Approvals, require_approval
from orbiter.cli.agent.file import AgentFile, SwarmFile, read_agent_file
from orbiter.cli.agent.objects import AgentFileError, load_object, load_output_type, load_tools
from orbiter.cli.ui.outcome import usage
from orbiter.cli.ui.sentences import sentence
from orbiter.config import parse_model_string
from orbiter.swarm import agents_of
from orbiter.types import OrbiterError

_SUFFIXES = (".yaml", ".yml")


class LoadedAgent:
    """An agent or a swarm, and the MCP servers its agents use.

    `async with` starts the servers and gives their tools to the agents; without any it only gives
    the target.

    Attributes:
        target: What was loaded.
        servers: Each agent that uses MCP servers, with their configuration and the file it is in.
        approvals: Which tools of such an agent wait for a person, by the agent's `id()`.
    """

    def __init__(
        self,
        target: Agent | Swarm,
        servers: list[tuple[Agent, Mapping[str, Any], Path]],
        approvals: Mapping[int, Approvals] | None = None,
    ) -> None:
        self.target = target
        self.servers = servers
        self.approvals = approvals or {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Agent | Swarm:
        """Start the servers and return the target.

        Raises:
            AgentFileError: What the file says of a server cannot be used.
            OrbiterError: A server cannot be reached, or orbiter-mcp is not installed.
        """
        async with AsyncExitStack() as stack:
            for agent, servers, file in self.servers:
                own = list(agent.tools)
                found = await stack.enter_async_context(_mcp_tools(servers, file))
                agent.tools = [*own, *found]
                stack.callback(setattr, agent, "tools", own)
                if id(agent) in self.approvals:
                    agent.tools = _waiting(agent.tools, self.approvals[id(agent)], file)
            self._stack = stack.pop_all()
        return self.target

    async def __aexit__(self, *error: object) -> None:
        """Stop the servers."""
        await self._stack.aclose()


def load_agent(reference: str, *, model: str | None = None) -> LoadedAgent:
    """Load an agent whose models there are.

    Args:
        reference: The path of a `.yaml` or `.yml` file, or `module:attr`. Modules are looked for
            in the working directory, too; those a file names also in the file's directory. The
            attribute is an Agent, a Swarm, or a function that returns one.
        model: Takes the place of all agents' own.

    Raises:
        UsageError: It cannot be loaded, or names a model that no provider is known for.
    """
    from orbiter.models import model_registry

    with usage():
        loader = _Loader()
        target = loader.load(reference, Path.cwd())
        for agent in agents_of(target):
            if model is not None:
                agent.model = model
                agent.config = agent.config.model_copy(update={"model": model})
            # told now rather than in the middle of a run
            if agent.provider is None:
                with loader.blame(None if model else agent):
                    model_registry.get(parse_model_string(agent.model)[0])
        return LoadedAgent(target, loader.servers, loader.approvals)


class _NamedError(AgentFileError):
    """It names the file already: those that refer to that one need not."""


class _Loader:
    def __init__(self) -> None:
        self.servers: list[tuple[Agent, Mapping[str, Any], Path]] = []
        self.approvals: dict[int, Approvals] = {}
        self._open: list[Path] = []
        self._files: dict[int, Path] = {}

    @contextmanager
    def blame(self, agent: Agent | None) -> Iterator[None]:
        """Let an error inside name the agent and the file that describes it, if one does."""
        file = self._files.get(id(agent))
        try:
            yield
        except OrbiterError as error:
            if agent is None or file is None:
                raise
            raise AgentFileError(f"{file}: agent '{agent.name}': {error}") from error

    def load(self, reference: str, directory: Path) -> Agent | Swarm:
        if reference.endswith(_SUFFIXES):
            return self._from_file((directory / reference).resolve())
        found = load_object(reference, directory)
        if not isinstance(found, Agent | Swarm) and callable(found):
            found = _made(found, reference)
        if not isinstance(found, Agent | Swarm):
            raise AgentFileError(
                f"'{reference}' is a {type(found).__name__}, not an Agent or a Swarm"
            )
        return found

    def _from_file(self, file: Path) -> Agent | Swarm:
        if file in self._open:
            raise _NamedError(f"{file} hands off to itself; write such agents in Python")
        self._open.append(file)
        try:
            try:
                written = read_agent_file(file)
            except AgentFileError as error:
                raise _NamedError(str(error)) from error
            try:
                if isinstance(written, SwarmFile):
                    return self._swarm(written, file)
                return self._agent(written, file)
            except _NamedError:
                raise
            except OrbiterError as error:
                raise _NamedError(f"{file}: {error}") from error
        finally:
            self._open.pop()

    def _swarm(self, written: SwarmFile, file: Path) -> Swarm:
        agents = [
            self._stage(one, file.parent) if isinstance(one, str) else self._agent(one, file)
            for one in written.agents
        ]
        return Swarm(
            agents=agents,
            flow=written.flow,
            mode=written.mode,
            name=written.name,
            description=written.description,
        )

    def _agent(self, written: AgentFile, file: Path) -> Agent:
        directory = file.parent
        tools = [t for name in written.tools for t in load_tools(name, directory)]
        if written.approval is not False and not written.mcp_servers:
            tools = _waiting(tools, written.approval, file)
        agent = Agent(
            name=written.name,
            model=written.model,
            instructions=written.instructions,
            tools=tools,
            handoffs=[self._member(name, directory) for name in written.handoffs],
            output_type=load_output_type(written.output_type, directory),
            max_steps=written.max_steps,
            temperature=written.temperature,
            max_tokens=written.max_tokens,
            settings=written.settings,
            description=written.description,
            retries=written.retries,
        )
        if written.mcp_servers:
            self.servers.append((agent, written.mcp_servers, file))
            if written.approval is not False:
                self.approvals[id(agent)] = written.approval
        self._files[id(agent)] = file
        return agent

    def _stage(self, reference: str, directory: Path) -> Agent | Swarm:
        found = self.load(reference, directory)
        if isinstance(found, Swarm) and not found.name:
            raise AgentFileError(
                f"'{reference}' is a Swarm; as a member of another it needs a name"
            )
        return found

    def _member(self, reference: str, directory: Path) -> Agent:
        found = self.load(reference, directory)
        if not isinstance(found, Agent):
            raise AgentFileError(f"'{reference}' is a Swarm; only an Agent can stand there")
        return found


def _waiting(tools: Sequence[Tool], approval: Approvals, file: Path) -> list[Tool]:
    """Return the tools with what the file says of their approval; others have them as they were."""
    own = [copy.copy(tool) for tool in tools]
    require_approval(own, approval, f"{file}: approval")
    return own


def _made(function: Any, reference: str) -> Any:
    """Call the user's function that makes an agent."""
    if isinstance(function, Tool):
        raise AgentFileError(
            f"'{reference}' is a tool, not an Agent: list it under `tools` of an agent"
        )
    if inspect.iscoroutinefunction(function):
        raise AgentFileError(
            f"'{reference}' is an async function: name an Agent, a Swarm, or a plain function that "
            "returns one"
        )
    try:
        needed = [
            name
            for name, one in inspect.signature(function).parameters.items()
            if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
        if needed:
            raise AgentFileError(
                f"'{reference}' needs arguments ({', '.join(needed)}): name an Agent, a Swarm, or "
                "a function that takes none and returns one"
            )
        return function()
    except OrbiterError:
        raise
    except Exception as error:
        raise AgentFileError(f"'{reference}' raised {sentence(error)}") from error


def _mcp_tools(servers: Mapping[str, Any], file: Path) -> Any:
    from orbiter.mcp import MCPConfigError, mcp_tools

    try:
        return mcp_tools({"mcpServers": dict(servers)})
    except MCPConfigError as error:
        told = str(error).replace("the MCP config, ", "mcpServers, ", 1)
        raise AgentFileError(f"{file}: {told}") from error
