"""The routing fields of a stream entry: which attempt of which AgentTask it belongs to."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from orbiter_contracts.envelope import InvalidMessageError, excerpt
from orbiter_contracts.queues import ATTEMPT_FIELD, TASK_FIELD

_TASK = re.compile(r"([A-Za-z0-9._-]{1,253})/([A-Za-z0-9._-]{1,253})")
_ATTEMPT = re.compile(r"[1-9][0-9]{0,5}")


class Route(NamedTuple):
    """An attempt, counted from 1, of the AgentTask `namespace/name`."""

    namespace: str
    name: str
    attempt: int


def read_route(fields: Mapping[str, str]) -> Route | None:
    """Read where an entry belongs.

    Args:
        fields: The entry's fields as text.

    Returns:
        The attempt, or None for an entry that belongs to no AgentTask.

    Raises:
        InvalidMessageError: The entry names an AgentTask or an attempt that there cannot be.
    """
    task = fields.get(TASK_FIELD)
    if task is None:
        return None
    place = _TASK.fullmatch(task)
    if place is None:
        raise InvalidMessageError(f"{TASK_FIELD}: not <namespace>/<name>: {excerpt(task)}")
    attempt = fields.get(ATTEMPT_FIELD, "")
    if not _ATTEMPT.fullmatch(attempt):
        raise InvalidMessageError(
            f"{ATTEMPT_FIELD}: not a number from 1 to 999999 in ASCII digits: {excerpt(attempt)}"
        )
    return Route(place[1], place[2], int(attempt))
