"""Kinds of variables: how the text of one becomes a value, for variable_table.py. Pure.

A function here raises a bare ValueError: settings.py says which variable and what it must be. Only
what is wrong with a Redis URL is said by the contracts, the same in every program.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from orbiter_contracts.mcp_servers import McpServer, decode_mcp_servers
from orbiter_contracts.redis_url import read_redis_url
from orbiter_contracts.tracing import read_traceparent
from worker_wrapper.agents import known_agents

DEFAULT_WORKSPACE: Final = Path("/workspace")


@dataclass(frozen=True, slots=True)
class BoundTask:
    """The one entry a Job's wrapper runs.

    Attributes:
        entry_id: Its id on the developer input stream.
        record: Key of the attempt's record; None when nobody keeps one.
        name: `<namespace>/<name>` of the AgentTask; None without a record.
        attempt: Which attempt this is; None without a record.
    """

    entry_id: str
    record: str | None = None
    name: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Where the agent's memory is stored, and how large it may be there, in bytes."""

    key: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class RotationRules:
    """When a user's next message begins a new session.

    Attributes:
        idle_seconds: After so long without a message.
        max_tokens: Once the conversation is larger than that.
        topic_similarity: When the message is less similar to the last ones, between 0 and 1.
        commands: When it begins with one of these words.
    """

    idle_seconds: int = 1800
    max_tokens: int = 100_000
    topic_similarity: float | None = None
    commands: tuple[str, ...] = ("/new",)


def _words(value: object) -> object:
    """Words with commas or spaces between; a comma alone says that there are none."""
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _mcp_servers(value: object) -> object:
    return decode_mcp_servers(value) if isinstance(value, str) else value


def _redis_url(url: str) -> str:
    read_redis_url(url)
    return url


def _agent_type(name: str) -> str:
    if name not in known_agents():
        raise ValueError
    return name


def _parent(text: object) -> object:
    """What is no `traceparent` is as good as none: whoever reads one has to go on (W3C)."""
    return text if read_traceparent(text) else None


def default_workspace() -> Path:
    """The image's, else, by hand, where the wrapper was started."""
    return DEFAULT_WORKSPACE if DEFAULT_WORKSPACE.is_dir() else Path.cwd()


McpServers = Annotated[tuple[McpServer, ...], NoDecode, BeforeValidator(_mcp_servers)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
AtLeastOne = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
AgentType = Annotated[str, AfterValidator(_agent_type)]
Parent = Annotated[str | None, BeforeValidator(_parent)]
Scripts = Literal["Functions", "Eval"]
