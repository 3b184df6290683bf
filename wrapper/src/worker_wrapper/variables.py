"""Kinds of variables: how the text of one becomes a value, for settings.py. Pure.

A function here raises a bare ValueError: settings.py says which variable and what it must be. Only
what is wrong with a Redis URL is said by the contracts, the same in every program.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AliasGenerator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from orbiter_contracts.artifacts import RETENTION_SECONDS
from orbiter_contracts.mcp_servers import McpServer, decode_mcp_servers
from orbiter_contracts.object_store import (
    DEFAULT_REGION,
    Bucket,
    Endpoint,
    Prefix,
    Region,
    StoreAddress,
)
from orbiter_contracts.redis_url import read_redis_url
from orbiter_contracts.stored_transcripts import PartsHead
from orbiter_contracts.tracing import read_traceparent
from worker_wrapper.agents import known_agents

_DEFAULT_WORKSPACE: Final = Path("/workspace")


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
    return _DEFAULT_WORKSPACE if _DEFAULT_WORKSPACE.is_dir() else Path.cwd()


McpServers = Annotated[tuple[McpServer, ...], NoDecode, BeforeValidator(_mcp_servers)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
AtLeastOne = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
AgentType = Annotated[str, AfterValidator(_agent_type)]
Parent = Annotated[str | None, BeforeValidator(_parent)]
Scripts = Literal["Functions", "Eval"]


class ArtifactSettings(BaseSettings):
    """Where artifacts are kept, and how long; the base of all settings."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        case_sensitive=True,
        alias_generator=AliasGenerator(validation_alias=str.upper),
    )

    artifacts_endpoint: Endpoint | None = Field(None, description="a URL like https://s3.host")
    artifacts_bucket: Bucket | None = Field(None, description="a bucket's name")
    artifacts_region: Region = Field(DEFAULT_REGION, description="a region like us-east-1")
    artifacts_prefix: Prefix = Field("", description="names with slashes between")
    artifacts_transcript: PartsHead | None = Field(
        None, description="how the names of a transcript's parts begin, like NAMESPACE/tasks/UID/1"
    )
    artifacts_access_key_id: str = Field("", repr=False)
    artifacts_secret_access_key: str = Field("", repr=False)
    artifacts_retention_seconds: AtLeastOne = Field(
        RETENTION_SECONDS, description="a whole number of 1 or more"
    )

    @property
    def store(self) -> StoreAddress | None:
        """Where artifacts are kept; None without a store."""
        if self.artifacts_endpoint is None or self.artifacts_bucket is None:
            return None
        return StoreAddress(
            endpoint=self.artifacts_endpoint,
            bucket=self.artifacts_bucket,
            region=self.artifacts_region,
            prefix=self.artifacts_prefix,
        )
