"""What an agent file may say.

It describes one agent, or, with `agents`, a swarm of them:

    name: researcher
    model: anthropic:claude-sonnet-4-20250514
    instructions: You research topics and cite sources.
    tools: [my_tools:search_web]
    mcpServers:
      files: {command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", .]}
    handoffs: [writer.yaml]
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from orbiter.cli.agent.objects import AgentFileError
from orbiter.cli.ui.sentences import mistake
from orbiter.config import (
    DEFAULT_MAX_STEPS,
    DEFAULT_MODEL,
    DEFAULT_RETRIES,
    DEFAULT_TEMPERATURE,
    ModelSettings,
)


class FileSettings(ModelSettings):
    """What a file says of how a model is to answer: ModelSettings, but for what is no value."""

    http_client: None = None


class AgentFile(BaseModel):
    """What a file says of one agent; names and defaults are those of Agent.

    Attributes:
        tools: `module:attr` each: a Tool, a function, or a list of these; without a colon a
            built-in one, `workspace` for all that work on files and run commands.
        mcp_servers: By name, as MCP's config files have them.
        approval: Tools that wait for a person before each call: names, in which `*` and `?` stand
            for any characters, or true for all.
        handoffs: Agents, by file or `module:attr`.
        output_type: `module:attr` of any type that an `Agent` takes.
        settings: What ModelSettings takes, but for an HTTP client.
    """

    model_config = {"frozen": True, "extra": "forbid", "populate_by_name": True}

    name: str = Field(min_length=1)
    model: str = DEFAULT_MODEL
    instructions: str = ""
    tools: list[str] = []
    mcp_servers: dict[str, Any] = Field(default={}, alias="mcpServers")
    approval: bool | list[str] = False
    handoffs: list[str] = []
    output_type: str | None = None
    max_steps: int = Field(default=DEFAULT_MAX_STEPS, ge=1)
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, ge=1)
    settings: FileSettings | None = None
    description: str = ""
    retries: int = Field(default=DEFAULT_RETRIES, ge=0)


class SwarmFile(BaseModel):
    """What a file says of a swarm; `agents` are files, `module:attr`, or written right there.

    A member that is a swarm itself is a file or `module:attr`, and has a name.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    name: str | None = Field(default=None, min_length=1)
    description: str = ""
    agents: list[str | AgentFile] = Field(min_length=1)
    flow: str | None = None
    mode: Literal["workflow", "team", "handoff"] = "workflow"


def read_agent_file(file: Path) -> AgentFile | SwarmFile:
    """Read a file that describes an agent or, with `agents`, a swarm.

    Raises:
        AgentFileError: It cannot be read, or has a mistake; the text names the line and the field.
    """
    data = _read(file)
    kind = SwarmFile if "agents" in data else AgentFile
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        from orbiter.cli.agent.yaml_lines import line_of

        # of a member that is neither, what speaks of a field says more
        first = max(error.errors(), key=lambda one: len(one["loc"]))
        # A swarm's own names for its kinds of members are no keys of the file.
        place = [one for one in first["loc"] if one not in ("str", "AgentFile")]
        where = ".".join(map(str, place))
        line = line_of(file.read_text(encoding="utf-8"), place)
        what = mistake(first)
        if first["type"] == "extra_forbidden":
            what = _no_such_field(place, kind)
        raise AgentFileError(f"{file}:{line}: {where}: {what}") from error


def _no_such_field(place: list[str | int], kind: type[BaseModel]) -> str:
    """Say that there is no such field at a place, and which one was probably meant."""
    from difflib import get_close_matches

    given, of = str(place[-1]), "a swarm"
    if "settings" in place[:-1]:
        kind, of = FileSettings, "settings"
    elif kind is AgentFile or len(place) > 1:
        kind, of = AgentFile, "an agent"
    names = [field.alias or name for name, field in kind.model_fields.items()]
    # both spellings are taken, so the one that is nearer is the one to show
    spelled = {
        **{name.lower(): name for name in kind.model_fields},
        **{n.lower(): n for n in names},
    }
    meant = get_close_matches(given.lower(), spelled, 1, 0.8)
    hint = f"; did you mean {spelled[meant[0]]}?" if meant else ""
    has = "have" if of == "settings" else "has"
    return f"{of} {has} no such field; known: {', '.join(names)}{hint}"


def _read(file: Path) -> dict[str, Any]:
    import yaml

    from orbiter.cli.agent.yaml_lines import fast

    try:
        data = fast(yaml.load, file.read_text(encoding="utf-8"))
    except OSError as error:
        raise AgentFileError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise AgentFileError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise AgentFileError(f"{file} describes no agent: it has to begin with `name:`")
    return data
