"""What the environment says about conversations: when they rotate, where their memory is kept."""

import re
from dataclasses import dataclass
from typing import Final

from orbiter_contracts.queues import SESSION_RECORDS
from worker_wrapper.variables import SettingsError, Variables

SNAPSHOT_BYTES: Final = 16 * 1024 * 1024
"""How large a snapshot may be unless SNAPSHOT_MAX_BYTES says otherwise."""
_SESSION_ID: Final = re.compile(r"(?!-)[^\x00-\x1f\x7f]{1,200}")


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


def rotation_rules(env: Variables) -> RotationRules:
    """Read the rules of rotation.

    Raises:
        SettingsError: A variable is malformed.
    """
    standard = RotationRules()
    similarity = env.number("SESSION_TOPIC_SIMILARITY")
    if similarity is not None and similarity > 1:
        raise SettingsError(f"SESSION_TOPIC_SIMILARITY is {similarity}: it must be at most 1")
    return RotationRules(
        idle_seconds=env.integer("SESSION_IDLE_SECONDS", least=1) or standard.idle_seconds,
        max_tokens=env.integer("SESSION_MAX_TOKENS", least=1) or standard.max_tokens,
        topic_similarity=similarity,
        commands=env.words("SESSION_COMMANDS", standard.commands),
    )


def session_records(env: Variables) -> str:
    """How the keys of users' session records begin.

    Raises:
        SettingsError: The variable is malformed.
    """
    if not env.optional("SESSION_RECORD_PREFIX"):
        return SESSION_RECORDS
    pattern = re.compile(rf"{SESSION_RECORDS}([a-z0-9-]+:)?")
    return env.matching("SESSION_RECORD_PREFIX", pattern, f"{SESSION_RECORDS} or so and NAMESPACE:")


def session_id(env: Variables) -> str | None:
    """Read the session to begin with, if one is given.

    Raises:
        SettingsError: It could be neither an argument of an agent nor part of an answer.
    """
    if not env.optional("SESSION_ID"):
        return None
    return env.matching("SESSION_ID", _SESSION_ID, "1 to 200 printable characters, no dash first")


def snapshot_settings(env: Variables) -> SnapshotSettings | None:
    """Read where snapshots go; None when none are wanted.

    Raises:
        SettingsError: A variable is malformed.
    """
    if not env.optional("SNAPSHOT_KEY"):
        return None
    return SnapshotSettings(
        key=env.matching("SNAPSHOT_KEY", re.compile(r"\S+"), "a key without spaces"),
        max_bytes=env.integer("SNAPSHOT_MAX_BYTES", least=1) or SNAPSHOT_BYTES,
    )
