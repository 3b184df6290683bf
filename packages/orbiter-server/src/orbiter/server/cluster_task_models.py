"""What belongs to one AgentTask of the cluster: its attempts, its spec, and what it has kept."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal[
    "", "running", "success", "failed", "error", "timeout", "input_required", "cancelled"
]
"""How an attempt stands, in the worker's words; empty is what nobody has said."""


class ClusterAttempt(BaseModel):
    """One attempt of an AgentTask; what is unknown is null or empty.

    `began_before` says that it began before `began_at`, the first that is still known of it.
    `checkpoint_at` is that of the latest attempt, and `disruptions` are known of an only one.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    outcome: Outcome = ""
    reason: str = ""
    message: str = ""
    began_at: datetime | None = None
    began_before: bool = False
    ended_at: datetime | None = None
    cost_usd: float | None = None
    disruptions: int | None = None
    checkpoint_at: datetime | None = None
    checkpoint_turns: int | None = None


class ClusterAttempts(BaseModel):
    """The latest attempts of an AgentTask, the oldest first; `earlier` are not told.

    `problem` says why no more is known of them than the task's own status has.
    """

    model_config = ConfigDict(frozen=True)

    items: list[ClusterAttempt]
    earlier: int = 0
    problem: str = ""


class SpecField(BaseModel):
    """One thing that a task was told, for people."""

    model_config = ConfigDict(frozen=True)

    name: str
    value: str


class ClusterSpec(BaseModel):
    """What an AgentTask was told: what matters most as fields, and the whole of it as YAML.

    `yaml_cut` says that `yaml` is not all of it. Texts in which something hides have it as an
    escape.
    """

    model_config = ConfigDict(frozen=True)

    fields: list[SpecField]
    yaml: str
    yaml_cut: bool = False


class ArtifactsQuery(BaseModel):
    """Of which attempt; the latest that has kept something if absent."""

    model_config = {"extra": "forbid", "frozen": True}

    attempt: int | None = Field(default=None, ge=1, le=999_999)


class ClusterArtifact(BaseModel):
    """A file that was kept of a workspace.

    One whose `place` is `redis` can be had here, by its `key`; one in the `store` by the command
    that `ClusterArtifacts` names. Where neither is known, its size is not either.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    size_bytes: int | None = None
    place: Literal["", "redis", "store"] = ""
    key: str = ""


class ClusterArtifacts(BaseModel):
    """What was kept of an attempt's workspace; `count` and `size_bytes` are of all files.

    `problem` says why not all is known of them, and `command` fetches them.
    """

    model_config = ConfigDict(frozen=True)

    attempt: int
    files: list[ClusterArtifact]
    count: int
    size_bytes: int
    store: str = ""
    problem: str = ""
    command: str = ""
