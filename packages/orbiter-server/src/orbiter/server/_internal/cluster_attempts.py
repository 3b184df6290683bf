"""The attempts of a task of the cluster: when each began and how it ended.

A task's status has the latest attempt. Of the others their transcripts tell: the first event says
when, the last what it came to. A worker writes both, so it is the worker's word.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from orbiter.server._internal.cluster_detail import (
    FINAL,
    TEXT_CHARS,
    Object,
    attempts_of,
    count_of,
    moment_of,
    money_of,
    part_of,
    text_of,
    transcript_of,
)
from orbiter.server._internal.errors import RequestError, logged
from orbiter.server._internal.redis_access import Access, connected
from orbiter.server._internal.transcripts import Place
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server.cluster_task_models import ClusterAttempt, ClusterAttempts, Outcome

if TYPE_CHECKING:
    from orbiter_contracts.transcript import AnyEvent

logger = logging.getLogger("orbiter.server")
MOST = 50
"""Attempts that are told."""
AT_ONCE = 4
"""Tasks of a namespace, whose Redis may be anybody's."""
READ_SECONDS = 5.0
_AWAY = "what is written of the attempts cannot be read now"
_NOT_THEIRS = "how each attempt went is told to who may get agenttasks/transcript here"
_PHASES: Mapping[str, Outcome] = {
    "Running": "running",
    "Completed": "success",
    "Failed": "failed",
    "Cancelled": "cancelled",
    "InputRequired": "input_required",
}


class Heard(NamedTuple):
    """The ends of a transcript: the first event that is kept, the last, and the cost by then."""

    first: "AnyEvent"
    last: "AnyEvent"
    cost: float | None


class Attempts:
    """The attempts of tasks.

    Args:
        access: Says how the readers of a namespace's transcripts reach Redis; raises a RequestError
            where they do not. None where no transcripts are shown.
    """

    def __init__(self, access: Callable[[str], Awaitable[Access]] | None) -> None:
        self._access = access
        self._slots = WeakValueDictionary[str, asyncio.Semaphore]()

    async def of(self, item: Object, viewer: Viewer) -> ClusterAttempts:
        """Return the attempts of a task, as much of them as somebody may know.

        Args:
            item: The task, as the API server has it.
            viewer: Who asks, and may get the task.

        Raises:
            RequestError: Nobody can say now what they may.
        """
        meta = part_of(item, "metadata")
        namespace, name = str(meta.get("namespace", "")), str(meta.get("name", ""))
        total = attempts_of(item)
        numbers = range(max(total - MOST, 0) + 1, total + 1)
        heard: Mapping[int, Heard] = {}
        problem = ""
        if self._access is not None and numbers:
            if await viewer.may(Right("get", "agenttasks/transcript", namespace, name)):
                heard, problem = await self._heard(self._access, item, namespace, numbers)
            else:
                problem = _NOT_THEIRS
        found = [attempt_of(item, number, heard.get(number)) for number in numbers]
        return ClusterAttempts(items=found, earlier=total - len(found), problem=problem)

    async def _heard(
        self,
        access: Callable[[str], Awaitable[Access]],
        item: Object,
        namespace: str,
        numbers: Sequence[int],
    ) -> tuple[Mapping[int, Heard], str]:
        from redis.exceptions import RedisError

        places = {number: transcript_of(item, number) for number in numbers}
        known = dict[int, Heard]()
        slot = self._slots.setdefault(namespace, asyncio.Semaphore(AT_ONCE))
        try:
            way = await access(namespace)
            async with (
                asyncio.timeout(READ_SECONDS), slot, connected(way, READ_SECONDS) as connection
            ):  # fmt: skip
                for number, place in places.items():
                    if place is not None and (ends := await _ends(connection, place)) is not None:
                        known[number] = ends
        except RequestError as error:
            return known, str(error)
        except (RedisError, OSError) as error:
            # also what took too long: a TimeoutError is an OSError
            logger.warning("attempts of a task of %s: %s", namespace, logged(error))
            return known, _AWAY
        except Exception:
            # whatever somebody has written there, or into the Secret, is that namespace's
            logger.exception("attempts of a task of %s", namespace)
            return known, _AWAY
        return known, ""


async def _ends(connection: Any, place: Place) -> Heard | None:
    """Read the first and the last entry of a transcript; None when there is none, or no event."""
    from redis.exceptions import ResponseError

    entries = list["AnyEvent"]()
    try:
        for command, begin, end in (("XRANGE", "-", "+"), ("XREVRANGE", "+", "-")):
            await connection.send_command(command, place.stream, begin, end, "COUNT", 1)
            entries += _events(await connection.read_response())
    except ResponseError:
        return None  # no stream, or not the readers': that attempt's
    if not entries:
        return None
    costs = (event.cost_usd for event in reversed(entries))
    return Heard(entries[0], entries[-1], next((each for each in costs if each is not None), None))


def _events(reply: Any) -> "Sequence[AnyEvent]":
    from orbiter_contracts.transcript_reading import read_entry

    for _, fields in reply or ():
        flat = fields or ()
        return read_entry(dict(zip(flat[::2], flat[1::2], strict=False))).events
    return ()


def attempt_of(item: Object, number: int, heard: Heard | None) -> ClusterAttempt:
    """Return what is known of an attempt; pure.

    Args:
        item: The task, as the API server has it.
        number: Which attempt, from 1.
        heard: What its transcript says, if anything.
    """
    status = part_of(item, "status")
    total = attempts_of(item)
    told: dict[str, Any] = {"number": number}
    if number == 1:
        told["began_at"] = moment_of(status.get("startTime"))
    if heard is not None:
        told |= _as_heard(heard, told.get("began_at"))
    if number == total:
        told |= _as_status(status, "ended_at" in told)
    if total == 1:
        told["disruptions"] = count_of(status.get("disruptions"))
        told["cost_usd"] = money_of(part_of(status, "usage").get("costUSD")) or told.get("cost_usd")
    return ClusterAttempt(**told)


def _as_heard(heard: Heard, began: datetime | None) -> dict[str, Any]:
    first, last = heard.first, heard.last
    told: dict[str, Any] = {"cost_usd": heard.cost}
    if began is None or first.sequence == 0:
        told |= {"began_at": first.at, "began_before": first.sequence > 0}
    if last.type == "verdict":
        told |= {
            "ended_at": last.at, "outcome": last.status,
            "reason": text_of(last.reason, 200), "message": text_of(last.text, TEXT_CHARS),
        }  # fmt: skip
    return told


def _as_status(status: Object, ended: bool) -> dict[str, Any]:
    """What the task's status says of its latest attempt, which goes before what its worker says."""
    phase = text_of(status.get("phase"), 40)
    told: dict[str, Any] = {}
    checkpoint = part_of(status, "checkpoint")
    if checkpoint:
        told["checkpoint_at"] = moment_of(checkpoint.get("time"))
        told["checkpoint_turns"] = count_of(checkpoint.get("turns"))
    over = phase in FINAL
    if phase == "Running" and not ended:
        told["outcome"] = _PHASES[phase]
    elif over or not ended:
        told["reason"] = text_of(status.get("reason"), 200)
        told["message"] = text_of(status.get("message"), TEXT_CHARS)
        if phase in _PHASES:
            told["outcome"] = _PHASES[phase]
        if over and not ended:
            told["ended_at"] = moment_of(status.get("completionTime"))
    return told
