"""The smallest patch from one state of an object to another."""

from typing import Any

from orbiter_operator.kube.models import Status


def patch(old: Status, new: Status) -> dict[str, Any]:
    """The merge patch that turns one status into the other; empty when they are equal."""
    return merge_patch(old.to_api(), new.to_api())


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The smallest patch from one object to another (RFC 7386): what should vanish is null."""
    found: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := merge_patch(before, value):
                found[name] = inner
        elif before != value:
            found[name] = value
    return found
