"""The wrapper's settings: read once from the environment, checked, then frozen.

`load` is the first thing __main__.py does. Each field of variable_table.py is one variable, and its
description what the variable must be: whatever is wrong is said in one sentence made of both.
Nothing else in this package reads the environment, but for what the agent is given.
"""

from collections.abc import Mapping
from typing import Final, Self

from pydantic import ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings.sources import PydanticBaseSettingsSource

from orbiter_contracts import AGENTS
from orbiter_contracts.mcp_servers import VARIABLE as MCP_SERVERS
from orbiter_contracts.object_store import VARIABLES, StoreAddress
from orbiter_contracts.queues import PREFIX, Keys
from worker_wrapper.agents import load_agent
from worker_wrapper.agents.base import Agent, AgentOptions
from worker_wrapper.agents.mcp import with_values
from worker_wrapper.redact import Redactor
from worker_wrapper.variable_table import Variables
from worker_wrapper.variables import BoundTask as BoundTask
from worker_wrapper.variables import RotationRules as RotationRules
from worker_wrapper.variables import SnapshotSettings as SnapshotSettings

_SHOWN_CHARACTERS: Final = 80


class SettingsError(ValueError):
    """The environment is not usable; the text names the variable, its value and what to do."""


class Settings(Variables):
    """What the environment says."""

    model_config = SettingsConfigDict(defer_build=False)

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
