"""AgentTriggers that hear a repository of GitHub's, as far as the courier may serve them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from orbiter_operator.kube.models import read_model
from orbiter_operator.kube.names import Key, parse_time
from orbiter_triggers.models import TriggerSpec

MaySee = Callable[[str, str], bool]
"""Called with a namespace and a repository: whether the one has the other."""


class Target(NamedTuple):
    """One of them."""

    key: Key
    uid: str
    created: datetime
    spec: TriggerSpec
    repository: str


def target_of(key: Key, obj: dict[str, Any] | None, may_see: MaySee) -> Target | None:
    """An AgentTrigger as one of them; None when it is none.

    Args:
        key: Its key.
        obj: The object; None when there is none.
        may_see: What its namespace may see.
    """
    if obj is None or obj["metadata"].get("deletionTimestamp"):
        return None
    spec, error = read_model(TriggerSpec, obj.get("spec"))
    github = spec.source.github
    if error is not None or github is None or spec.source.scheme != "github":
        return None
    if not may_see(key.namespace, github.repository):
        return None
    created = parse_time(obj["metadata"]["creationTimestamp"])
    assert created is not None  # noqa: S101 - the API server's own
    return Target(key, obj["metadata"]["uid"], created, spec, github.repository)
