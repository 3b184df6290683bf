"""The wrapper's settings: read once from the environment, checked, then frozen.

`load` is the first thing __main__.py does. Whatever is wrong is said in one sentence that names the
variable; nothing else in this package reads the environment, but for what the agent is given.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from worker_wrapper.agents import UnknownAgentError, load_agent
from worker_wrapper.agents.base import Agent, AgentOptions
from worker_wrapper.session_settings import (
    RotationRules,
    SnapshotSettings,
    rotation_rules,
    session_id,
    session_records,
    snapshot_settings,
)
from worker_wrapper.variables import SettingsError, Variables

__all__ = ["BoundTask", "Settings", "SettingsError", "load"]

WorkerType = Literal["po", "developer"]
_DEFAULT_WORKSPACE: Final = Path("/workspace")
_ENTRY_ID: Final = re.compile(r"\d+-\d+")
_RECORD: Final = re.compile(r"agenttask:[^:\s]+:\d+")
_TASK_NAME: Final = re.compile(r"[^/\s]+/[^/\s]+")
_SCHEMES: Final = ("redis", "rediss", "unix")
_LEVELS: Final = ("debug", "info", "warning", "error")


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
class Settings:
    """What the environment says; the README's table has every variable."""

    worker_id: str
    worker_type: WorkerType
    redis_url: str = field(repr=False)
    agent: Agent
    options: AgentOptions
    session_id: str | None
    user_id: int | None
    session_records: str
    task: BoundTask | None
    workspace_dir: Path
    git_credentials_dir: Path | None
    grace_seconds: float
    spill_dir: Path
    rotation: RotationRules
    streaming: bool
    snapshot: SnapshotSettings | None
    log_level: str


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises:
        SettingsError: A variable is missing or malformed; the text is one line.
    """
    env = Variables(environ)
    worker_id = env.matching("WORKER_ID", re.compile(r"\S+"), "a name without spaces")
    worker_type = env.choice("WORKER_TYPE", ("po", "developer"))
    redis_url = _redis_url(env.required("REDIS_URL"))
    agent = _agent(env)
    snapshot = snapshot_settings(env)
    task = _bound_task(env) if worker_type == "developer" else None
    if worker_type == "developer" and snapshot and not (task and task.record):
        raise SettingsError("SNAPSHOT_KEY is set and TASK_RECORD is not: only tasks have snapshots")
    if "REDIS_URL" in env.words("AGENT_ENV"):
        raise SettingsError("AGENT_ENV lists REDIS_URL: the agent must not reach Redis")
    return Settings(
        worker_id=worker_id,
        worker_type="po" if worker_type == "po" else "developer",
        redis_url=redis_url,
        agent=agent,
        options=AgentOptions(
            model=env.optional("AGENT_MODEL"),
            max_turns=env.integer("AGENT_MAX_TURNS", least=1),
            max_cost_usd=env.number("AGENT_MAX_COST_USD"),
            system_prompt=env.optional("AGENT_SYSTEM_PROMPT"),
        ),
        session_id=session_id(env),
        user_id=env.integer("USER_ID"),
        session_records=session_records(env),
        task=task,
        workspace_dir=_workspace(env.optional("WORKSPACE_DIR")),
        git_credentials_dir=env.path("GIT_CREDENTIALS_DIR"),
        grace_seconds=env.number("TERMINATION_GRACE_SECONDS") or 60.0,
        spill_dir=env.path("SPILL_DIR") or Path("/tmp"),  # noqa: S108 - a mount of its own in pods
        rotation=rotation_rules(env),
        streaming=env.choice("STREAMING", ("Enabled", "Disabled"), default="Disabled") == "Enabled",
        snapshot=snapshot,
        log_level=env.choice("LOG_LEVEL", _LEVELS, default="info"),
    )


def _redis_url(url: str) -> str:
    """Check the URL. The error does not repeat it, because it may hold a password."""
    expected = "it must look like redis://user:password@host:6379/0 (or rediss://, unix://)"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _SCHEMES and (parts.port or 1) > 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable:
        raise SettingsError(f"REDIS_URL is malformed: {expected}")
    database = parts.path.strip("/")
    if parts.scheme == "unix":
        if not parts.path:
            raise SettingsError("REDIS_URL is malformed: unix:// needs the path of a socket")
    elif not parts.hostname or (database and not database.isdecimal()):
        raise SettingsError(f"REDIS_URL is malformed: {expected}")
    return url


def _agent(env: Variables) -> Agent:
    try:
        agent = load_agent(env.optional("AGENT_TYPE") or "claude")
    except UnknownAgentError as error:
        raise SettingsError(f"AGENT_TYPE: {error}") from None
    if agent.credentials and not any(env.optional(name) for name in agent.credentials):
        first, *others = agent.credentials
        instead = f" (or {', '.join(others)})" if others else ""
        raise SettingsError(f"{first} is missing: the agent {agent.name} needs it{instead}")
    return agent


def _bound_task(env: Variables) -> BoundTask | None:
    details = ("TASK_RECORD", "TASK_NAME", "TASK_ATTEMPT")
    given = [name for name in details if env.optional(name)]
    if not env.optional("TASK_ENTRY_ID"):
        if given:
            raise SettingsError(f"TASK_ENTRY_ID is missing, although {given[0]} is set")
        return None
    entry_id = env.matching("TASK_ENTRY_ID", _ENTRY_ID, "a stream entry id like 1700000000000-0")
    if not given:
        return BoundTask(entry_id)
    return BoundTask(
        entry_id,
        record=env.matching("TASK_RECORD", _RECORD, "a key like agenttask:<uid>:<attempt>"),
        name=env.matching("TASK_NAME", _TASK_NAME, "<namespace>/<name>"),
        attempt=env.integer("TASK_ATTEMPT", least=1) or int(env.required("TASK_ATTEMPT")),
    )


def _workspace(value: str | None) -> Path:
    """An explicit directory, else the image's, else, by hand, where the wrapper was started."""
    if value:
        return Path(value)
    return _DEFAULT_WORKSPACE if _DEFAULT_WORKSPACE.is_dir() else Path.cwd()
