"""The wrapper's settings: read once from the environment, checked, then frozen.

`load` is the first thing __main__.py does. Each field is one variable of the README's table, and
its description what the variable must be: whatever is wrong is said in one sentence made of both.
Nothing else in this package reads the environment, but for what the agent is given.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource
from pydantic_settings.sources import PydanticBaseSettingsSource

from orbiter_contracts import AGENTS
from orbiter_contracts.checkpoints import CHECKPOINT_SECONDS, DisruptionPolicy
from orbiter_contracts.mcp_servers import VARIABLE as MCP_SERVERS
from orbiter_contracts.object_store import VARIABLES
from orbiter_contracts.queues import ATTEMPT_RECORD_PATTERN, BARE, PREFIX, PREFIX_PATTERN, Keys
from worker_wrapper.agents import known_agents, load_agent
from worker_wrapper.agents.base import Agent, AgentOptions
from worker_wrapper.agents.mcp import with_values
from worker_wrapper.redact import Redactor
from worker_wrapper.variables import (
    AboveZero,
    AgentType,
    ArtifactSettings,
    AtLeastOne,
    McpServers,
    NotNegative,
    Parent,
    RedisUrl,
    Scripts,
    Words,
    default_workspace,
)
from worker_wrapper.variables import BoundTask as BoundTask
from worker_wrapper.variables import RotationRules as RotationRules
from worker_wrapper.variables import SnapshotSettings as SnapshotSettings

_SHOWN_CHARACTERS: Final = 80


class SettingsError(ValueError):
    """The environment is not usable; the text names the variable, its value and what to do."""


_RULES: Final = RotationRules()
_COUNT: Final = "a whole number of 1 or more"
_AMOUNT: Final = "a number above 0"


class Settings(ArtifactSettings):
    """What the environment says."""

    worker_id: str = Field(pattern=r"^\S+$", description="a name without spaces")
    worker_type: Literal["po", "developer"] = Field(description="po or developer")
    redis_url: RedisUrl = Field(
        repr=False,
        description="a URL like redis://user:password@host:6379/0 or redis+sentinel://…",
    )
    key_prefix: str = Field(
        "",
        pattern=rf"^{PREFIX_PATTERN}$",
        description="a namespace in braces and a colon, like {team-a}:",
    )
    redis_scripts: Scripts | None = Field(None, description="Functions or Eval")
    agent_type: AgentType = Field("claude", description=f"one of {', '.join(known_agents())}")
    agent_model: str | None = None
    agent_max_turns: AtLeastOne | None = Field(None, description=_COUNT)
    agent_max_cost_usd: AboveZero | None = Field(None, description=_AMOUNT)
    agent_system_prompt: str | None = None
    agent_env: Words = ()
    agent_mcp_servers: McpServers = Field(
        (), repr=False, description="a list of MCP servers as JSON"
    )
    agent_instructions: str | None = None
    agent_instructions_file: Path | None = None
    agent_skills_dir: Path | None = None
    session_id: str | None = Field(
        None,
        pattern=r"^[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,199}$",
        description="1 to 200 printable characters, the first no dash",
    )
    user_id: int | None = Field(None, description="a whole number")
    session_record_prefix: str | None = Field(
        None,
        pattern=rf"^{PREFIX_PATTERN}{BARE.session_records()}([a-z0-9-]+:)?$",
        description=f"{BARE.session_records()} or {BARE.session_records('NAMESPACE')}",
    )
    session_users: Literal["Any", "Own"] = Field("Any", description="Any or Own (of USER_ID only)")
    session_idle_seconds: AtLeastOne = Field(_RULES.idle_seconds, description=_COUNT)
    session_max_tokens: AtLeastOne = Field(_RULES.max_tokens, description=_COUNT)
    session_topic_similarity: Annotated[AboveZero, Field(le=1)] | None = Field(
        None, description="a number above 0 and at most 1"
    )
    session_commands: Words = _RULES.commands
    streaming_mode: Literal["Enabled", "Disabled"] = Field(
        "Disabled", validation_alias="STREAMING", description="Enabled or Disabled"
    )
    snapshot_key: str | None = Field(None, pattern=r"^\S+$", description="a key without spaces")
    snapshot_max_bytes: AtLeastOne = Field(16 * 1024 * 1024, description=_COUNT)
    task_entry_id: str | None = Field(
        None, pattern=r"^\d+-\d+$", description="a stream entry id like 1700000000000-0"
    )
    task_record: str | None = Field(
        None,
        pattern=rf"^{ATTEMPT_RECORD_PATTERN}$",
        description=f"a key like {BARE.attempt_record('<uid>', '<attempt>')}",
    )
    task_name: str | None = Field(
        None, pattern=r"^[^/\s]+/[^/\s]+$", description="<namespace>/<name>"
    )
    task_attempt: AtLeastOne | None = Field(None, description=_COUNT)
    workspace_dir: Path = Field(default_factory=default_workspace)
    git_credentials_dir: Path | None = None
    worker_handover_dir: Path | None = None
    grace_seconds: AboveZero = Field(
        60.0, validation_alias="TERMINATION_GRACE_SECONDS", description=_AMOUNT
    )
    spill_dir: Path = Path("/tmp")  # noqa: S108 - a mount of its own in pods
    checkpoint_seconds: NotNegative = Field(
        float(CHECKPOINT_SECONDS), description="a number of seconds, 0 for only when asked to leave"
    )
    disruption_policy: DisruptionPolicy = Field("Resume", description="Resume, Restart or Fail")
    disruption_note: str | None = Field(None, max_length=200, description="at most 200 characters")
    traceparent: Parent = None
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` was given."""
        return (init_settings,)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Refuse what cannot be together."""
        if hidden := sorted({"REDIS_URL", *VARIABLES} & {*self.agent_env}):
            raise ValueError(
                f"AGENT_ENV lists {hidden[0]}, but agents must not reach "
                f"{'Redis' if hidden[0] == 'REDIS_URL' else 'the store'}: take it off the list"
            )
        if (self.artifacts_endpoint is None) != (self.artifacts_bucket is None):
            raise ValueError("set ARTIFACTS_ENDPOINT and ARTIFACTS_BUCKET, or neither")
        for name in ("session_record_prefix", "snapshot_key", "task_record"):
            key = getattr(self, name)
            if key is not None and not self._ours(key):
                raise ValueError(
                    f"{name.upper()} is {key!r} and KEY_PREFIX is {self.key_prefix!r}: what a "
                    "worker reads and writes begins with its prefix, and with no other"
                )
        if self.worker_type == "po":
            return self
        details = ("TASK_RECORD", "TASK_NAME", "TASK_ATTEMPT")
        given = [name for name in details if getattr(self, name.lower()) is not None]
        missing = [name for name in details if name not in given]
        if given and self.task_entry_id is None:
            missing.insert(0, "TASK_ENTRY_ID")
        if given and missing:
            raise ValueError(f"{missing[0]} is missing and {given[0]} is set: set all or none")
        if self.snapshot_key is not None and self.task_record is None:
            raise ValueError(
                f"SNAPSHOT_KEY is {self.snapshot_key!r} and TASK_RECORD is not set, and only tasks "
                "have snapshots: set TASK_RECORD too, or neither"
            )
        return self

    def _ours(self, key: str) -> bool:
        prefix = PREFIX.match(key)
        return prefix is not None and prefix[0] == self.key_prefix

    @property
    def keys(self) -> Keys:
        """The keys this worker reads and writes."""
        return Keys(self.key_prefix)

    @property
    def session_records(self) -> str:
        """How the keys of session records begin."""
        return self.session_record_prefix or self.keys.session_records()

    @property
    def agent(self) -> Agent:
        """The adapter of the agent."""
        return load_agent(self.agent_type)

    @property
    def options(self) -> AgentOptions:
        """What the agent is told beside the message."""
        return AgentOptions(
            self.agent_model,
            self.agent_max_turns,
            self.agent_max_cost_usd,
            self.agent_system_prompt,
            self.agent_mcp_servers,
            self.agent_instructions,
            self.agent_instructions_file,
            self.agent_skills_dir,
        )

    @property
    def rotation(self) -> RotationRules:
        """When a session ends."""
        return RotationRules(
            self.session_idle_seconds,
            self.session_max_tokens,
            self.session_topic_similarity,
            self.session_commands,
        )

    @property
    def streaming(self) -> bool:
        """Whether pieces of an answer are sent while the agent gives it."""
        return self.streaming_mode == "Enabled"

    @property
    def snapshot(self) -> SnapshotSettings | None:
        """Where the agent's memory is kept, if it is."""
        if self.snapshot_key is None:
            return None
        return SnapshotSettings(self.snapshot_key, self.snapshot_max_bytes)

    @property
    def lease_key(self) -> str:
        """Key of the lease of this worker's name."""
        if self.worker_type == "po":
            return self.keys.po_lease(self.worker_id)
        return self.keys.developer_lease(self.worker_id, self.task.entry_id if self.task else None)

    @property
    def outlives_disruption(self) -> bool:
        """Whether an attempt that is cut off here goes on, or begins again, in another pod."""
        return bool(self.task and self.task.record and self.disruption_policy != "Fail")

    @property
    def task(self) -> BoundTask | None:
        """The one entry to run, if there is one."""
        if self.worker_type == "po" or self.task_entry_id is None:
            return None
        return BoundTask(self.task_entry_id, self.task_record, self.task_name, self.task_attempt)


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings; a variable that is empty counts as absent.

    Raises:
        SettingsError: A variable is missing or malformed; the text is one line.
    """
    given = {name: value.strip() for name, value in environ.items() if value.strip()}
    source = EnvSettingsSource(Settings)
    source.env_vars = given
    try:
        settings = Settings(**source())
    except ValidationError as error:
        raise SettingsError(_sentence(error, Redactor.of(environ))) from None
    try:
        with_values(settings.agent_mcp_servers, given)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    agent = settings.agent
    suffices = (*agent.credentials, *AGENTS[agent.name].keyless)
    if agent.credentials and not any(name in given for name in suffices):
        first, *others = agent.credentials
        instead = f" (or {', '.join(others)})" if others else ""
        raise SettingsError(f"{first} is missing: the agent {agent.name} needs it{instead}")
    return settings


def _sentence(error: ValidationError, redactor: Redactor) -> str:
    """What is wrong first, and what to do about it."""
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return str(first["ctx"]["error"])
    name = str(first["loc"][0])
    expected = next(
        field.description
        for field in Settings.model_fields.values()
        if field.validation_alias == name
    )
    if first["type"] == "missing":
        return f"{name} is missing: set it to {expected}"
    # They may hold a password; what the contracts say of them shows none.
    if name in ("REDIS_URL", MCP_SERVERS):
        return f"{name} {first['ctx']['error']}"
    value = redactor.scrub(first["input"])[:_SHOWN_CHARACTERS]
    return f"{name} is {value!r}: it must be {expected}"
