"""What an attack is: who does what, what stops it, and what shows that it is spelled right."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attacks.field import Field

Action = Callable[["Field"], None]
"""Raises `Refused` where something stopped it."""


class Party(StrEnum):
    """Who attacks. All of them are of namespace B."""

    TENANT = "tenant"
    AGENT = "agent"
    PRODUCER = "producer"
    FRONT_END = "front end"


class Guard(StrEnum):
    """What stops an attack; its control is the same action without."""

    RBAC = "the API server's RBAC"
    POLICY = "the admission policy, and the operator"
    OPERATOR = "the operator"
    REDIS = "the rules of the Redis user"
    LIMITS = "Redis' limits"
    QUOTA = "the namespace's quota of Redis"
    NETWORK = "the NetworkPolicy"
    POD = "the pod's security context"
    PROCESS = "the undumpable worker"
    ENVIRONMENT = "the agent's allowlist of variables"
    WRAPPER = "the worker"
    RECEIVER = "the receiver of webhooks"
    GIT = "who clones and pushes, beside the agent"
    ISOLATION = "the isolated interpreter"


class Refused(Exception):  # noqa: N818 - the usual outcome, not a mistake
    """Something stopped an attack; the text is its reason."""


@dataclass(frozen=True)
class Attack:
    """One attempt.

    Attributes:
        name: What the attacker wants, in words that no other attack has.
        party: Who it is.
        guard: What stops it.
        action: The attempt.
        control: The same without the guard, which has to succeed.
        refusal: A pattern of the reason.
    """

    name: str
    party: Party
    guard: Guard
    action: Action
    control: Action
    refusal: str
