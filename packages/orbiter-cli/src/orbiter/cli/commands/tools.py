"""`orbiter tools`: what an agent can do, and doing it by hand."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.options import AgentName, AsJson
from orbiter.cli.ui.outcome import ExitCode, UsageError, ends

if TYPE_CHECKING:
    from orbiter import Agent, Swarm, Tool


@ends
def tools(
    agent: AgentName,
    call: Annotated[
        str | None,
        typer.Option("--call", metavar="TOOL", help="Call this tool.", show_default=False),
    ] = None,
    arguments: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="What to call it with.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the tools of an agent, those of its MCP servers too, or call one without a model."""
    import asyncio

    from orbiter.cli.agent.loading import load_agent

    if arguments is not None and call is None:
        raise UsageError("--args is for --call: name the tool with --call TOOL")
    loaded = load_agent(agent)

    async def main() -> int:
        async with loaded as target:
            if call is not None:
                return await _call(target, call, arguments or "{}", as_json)
            _list(target, as_json)
            return ExitCode.OK

    return asyncio.run(main())


def _list(target: "Agent | Swarm", as_json: bool) -> None:
    from orbiter.cli.ui.terminal import print_json
    from orbiter.cli.ui.text import plain
    from orbiter.swarm import agents_of

    agents = agents_of(target)
    if as_json:
        told = [
            {"agent": one.name, **tool.to_schema()["function"]}
            for one in agents
            for tool in one.tools
        ]
        print_json(told)
        return
    for one in agents:
        sys.stdout.write(f"{one.name}\n" if len(agents) > 1 else "")
        for tool in one.tools:
            line = plain(tool.description).strip().partition("\n")[0]
            sys.stdout.write(f"{tool.name}({', '.join(_parameters(tool))})  {line}".rstrip() + "\n")


async def _call(target: "Agent | Swarm", name: str, arguments: str, as_json: bool) -> int:
    from orbiter.cli.ui.terminal import print_json
    from orbiter.swarm import agents_of
    from orbiter.types import OrbiterError

    found = {tool.name: tool for agent in agents_of(target) for tool in agent.tools}
    if name not in found:
        known = ", ".join(found) or "none"
        raise UsageError(f"there is no tool '{name}'; tools: {known}")
    if found[name].context_parameter is not None:
        raise UsageError(f"tool '{name}' needs a run: it has a parameter for the RunContext")
    try:
        parsed = found[name].parse(arguments)
    except OrbiterError as error:
        raise UsageError(f"--args: {error}") from error
    value: Any = await found[name].execute(**parsed)
    if as_json:
        print_json({"output": value})
    elif isinstance(value, str):
        sys.stdout.write(value + "\n")
    else:
        print_json(value)
    return ExitCode.OK


def _parameters(tool: "Tool") -> list[str]:
    required = tool.parameters.get("required", [])
    names = tool.parameters.get("properties", {})
    return [name if name in required else f"{name}?" for name in names]
