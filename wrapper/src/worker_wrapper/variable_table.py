"""Every variable of a worker, once: its kind, its default, what it must be, and what it means.

settings.py reads them by this table, and `worker-wrapper --help` prints it: a variable's name is
the field's, its `description` what it must be (of a mistake that is the sentence), its `title` what
it means.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AliasGenerator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from orbiter_contracts.artifacts import RETENTION_SECONDS
from orbiter_contracts.checkpoints import CHECKPOINT_SECONDS, DisruptionPolicy
from orbiter_contracts.object_store import DEFAULT_REGION, Bucket, Endpoint, Prefix, Region
from orbiter_contracts.queues import ATTEMPT_RECORD_PATTERN, BARE, PREFIX_PATTERN
from orbiter_contracts.stored_transcripts import PartsHead
from worker_wrapper.agents import known_agents
from worker_wrapper.variables import (
    AboveZero,
    AgentType,
    AtLeastOne,
    McpServers,
    NotNegative,
    Parent,
    RedisUrl,
    RotationRules,
    Scripts,
    Words,
    default_workspace,
)

_RULES: Final = RotationRules()
_COUNT: Final = "a whole number of 1 or more"
_AMOUNT: Final = "a number above 0"


class Variables(BaseSettings):
    """The table. Whoever reads it makes a class of it that is complete: it is built only there."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        case_sensitive=True,
        defer_build=True,
        alias_generator=AliasGenerator(validation_alias=str.upper),
    )

    worker_id: str = Field(
        pattern=r"^\S+$",
        description="a name without spaces",
        title="this worker's name, also as a consumer; one process at a time has it",
    )
    worker_type: Literal["po", "developer"] = Field(
        description="po or developer", title="po: a session's worker; developer: a task's"
    )
    redis_url: RedisUrl = Field(
        repr=False,
        description="a URL like redis://user:password@host:6379/0 or redis+sentinel://…",
        title="where the queue is: redis://, rediss://, unix:// or redis+sentinel://",
    )
    key_prefix: str = Field(
        "",
        pattern=rf"^{PREFIX_PATTERN}$",
        description="a namespace in braces and a colon, like {team-a}:",
        title="how every key begins, like {team-a}: for a namespace",
    )
    redis_scripts: Scripts | None = Field(
        None,
        description="Functions or Eval",
        title="Functions that an operator has loaded (so with KEY_PREFIX), else Eval",
    )
    agent_type: AgentType = Field(
        "claude",
        description=f"one of {', '.join(known_agents())}",
        title=f"the agent: {', '.join(known_agents())}",
    )
    agent_model: str | None = Field(None, title="the model; none is the agent's own choice")
    agent_max_turns: AtLeastOne | None = Field(
        None, description=_COUNT, title="turns of the model for a message, where the agent has that"
    )
    agent_max_cost_usd: AboveZero | None = Field(
        None, description=_AMOUNT, title="US dollars for a message, where the agent has that"
    )
    agent_system_prompt: str | None = Field(None, title="what the agent is told before all else")
    agent_env: Words = Field((), title="further variables the agent may see, commas between")
    agent_mcp_servers: McpServers = Field(
        (),
        repr=False,
        description="a list of MCP servers as JSON",
        title="MCP servers for the agent, as a list of JSON",
    )
    agent_instructions: str | None = Field(
        None, title="what the agent's own file of instructions says, like CLAUDE.md"
    )
    agent_instructions_file: Path | None = Field(None, title="a file with more of it")
    agent_skills_dir: Path | None = Field(
        None, title="a folder with skills for the agent, each a folder with SKILL.md"
    )
    secret_env: Words = Field(
        (), title="variables that come from Secrets, kept out of logs and outputs, commas between"
    )
    session_id: str | None = Field(
        None,
        pattern=r"^[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,199}$",
        description="1 to 200 printable characters, the first no dash",
        title="the session to begin with, unless the user's record is fresh; none: a new one",
    )
    user_id: int | None = Field(
        None, description="a whole number", title="po: whose a message is that does not say so"
    )
    session_record_prefix: str | None = Field(
        None,
        pattern=rf"^{PREFIX_PATTERN}{BARE.session_records()}([a-z0-9-]+:)?$",
        description=f"{BARE.session_records()} or {BARE.session_records('NAMESPACE')}",
        title=f"po: how users' session records begin; none: {BARE.session_records()} or in a "
        "prefix",
    )
    session_users: Literal["Any", "Own"] = Field(
        "Any", description="Any or Own (of USER_ID only)", title="po: Own takes USER_ID's alone"
    )
    session_idle_seconds: AtLeastOne = Field(
        _RULES.idle_seconds,
        description=_COUNT,
        title="po: a message after so long begins a new session",
    )
    session_max_tokens: AtLeastOne = Field(
        _RULES.max_tokens,
        description=_COUNT,
        title="po: a conversation larger than that goes on in a new session",
    )
    session_topic_similarity: Annotated[AboveZero, Field(le=1)] | None = Field(
        None,
        description="a number above 0 and at most 1",
        title="po: a message less like the last ones begins a new session; none: never",
    )
    session_commands: Words = Field(
        _RULES.commands, title="po: first words that begin a new session; a comma alone: none"
    )
    streaming_mode: Literal["Enabled", "Disabled"] = Field(
        "Disabled",
        validation_alias="STREAMING",
        description="Enabled or Disabled",
        title="po: Enabled sends pieces of an answer while the agent gives it",
    )
    snapshot_key: str | None = Field(
        None,
        pattern=r"^\S+$",
        description="a key without spaces",
        title="where in Redis the agent's memory is kept; none: nowhere",
    )
    snapshot_max_bytes: AtLeastOne = Field(
        16 * 1024 * 1024, description=_COUNT, title="how large it may be there, compressed"
    )
    task_entry_id: str | None = Field(
        None,
        pattern=r"^\d+-\d+$",
        description="a stream entry id like 1700000000000-0",
        title="developer: the one entry to run; none: the next that belongs to nobody",
    )
    task_record: str | None = Field(
        None,
        pattern=rf"^{ATTEMPT_RECORD_PATTERN}$",
        description=f"a key like {BARE.attempt_record('<uid>', '<attempt>')}",
        title="key of the attempt's record; with it the two that follow",
    )
    task_name: str | None = Field(
        None,
        pattern=r"^[^/\s]+/[^/\s]+$",
        description="<namespace>/<name>",
        title="<namespace>/<name> of the task",
    )
    task_attempt: AtLeastOne | None = Field(None, description=_COUNT, title="number of the attempt")
    workspace_dir: Path = Field(
        default_factory=default_workspace,
        title="where the agent works; without it and a /workspace the current directory",
    )
    git_credentials_dir: Path | None = Field(
        None, title="files with the credential of the wrapper's own git"
    )
    worker_handover_dir: Path | None = Field(
        None, title="the clone's report and the push's socket, where others clone and push"
    )
    grace_seconds: AboveZero = Field(
        60.0,
        validation_alias="TERMINATION_GRACE_SECONDS",
        description=_AMOUNT,
        title="how long after SIGTERM the container is killed",
    )
    spill_dir: Path = Field(
        Path("/tmp"),  # noqa: S108 - a mount of its own in pods
        title="where large output of the agent goes",
    )
    checkpoint_seconds: NotNegative = Field(
        float(CHECKPOINT_SECONDS),
        description="a number of seconds, 0 for only when asked to leave",
        title="how often a checkpoint is made while the agent works; 0: only on SIGTERM",
    )
    disruption_policy: DisruptionPolicy = Field(
        "Resume",
        description="Resume, Restart or Fail",
        title="what becomes of a task that has to leave before it is done",
    )
    disruption_note: str | None = Field(
        None,
        max_length=200,
        description="at most 200 characters",
        title="what the agent is told of why it was cut off",
    )
    traceparent: Parent = Field(None, title="the task's trace, as W3C Trace Context has it")
    artifacts_endpoint: Endpoint | None = Field(
        None, description="a URL like https://s3.host", title="the S3-compatible store of artifacts"
    )
    artifacts_bucket: Bucket | None = Field(
        None, description="a bucket's name", title="the bucket there; both or neither"
    )
    artifacts_region: Region = Field(
        DEFAULT_REGION, description="a region like us-east-1", title="its region"
    )
    artifacts_prefix: Prefix = Field(
        "", description="names with slashes between", title="how the names of objects begin"
    )
    artifacts_transcript: PartsHead | None = Field(
        None,
        description="how the names of a transcript's parts begin, like NAMESPACE/tasks/UID/1",
        title="how the names of the whole transcript's parts begin; none: it is not stored",
    )
    artifacts_access_key_id: str = Field("", repr=False, title="who the worker is in the store")
    artifacts_secret_access_key: str = Field("", repr=False, title="its key; no agent sees it")
    artifacts_retention_seconds: AtLeastOne = Field(
        RETENTION_SECONDS, description=_COUNT, title="how long Redis keeps small artifacts"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error", title="what the log has"
    )
