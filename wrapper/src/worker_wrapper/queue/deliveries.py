"""How often a message was delivered, and whose fault it is that it was not answered.

A poison message is one that each worker who had it died of: it is answered without its agent. That
a worker died of it can be told from its pod: what a message does to its worker ends the container,
and the next one begins in the same pod under the same name. Where the next delivery is in another
pod, the pod was lost: with its node, by an eviction, by somebody who deleted it. That says nothing
against the message, as long as it does not happen again and again.
"""

import socket
from typing import Annotated, Final

from pydantic import Field

from orbiter_contracts import InvalidMessageError, decode_json
from orbiter_contracts.bounds import Id
from orbiter_contracts.checkpoint_scripts import READ
from orbiter_contracts.checkpoints import MAX_GENERATION
from orbiter_contracts.message_base import Message
from worker_wrapper.queue.connection import RedisConnection
from worker_wrapper.queue.streams import Entry

POISONED_DELIVERIES: Final = 3
"""A message delivered so often is not tried again: each worker that had it before died of it."""
MOVED_DELIVERIES: Final = 10
"""So many lost pods say nothing against a message; whose pods are lost ever again takes part."""
DELIVERY_FIELD: Final = "delivery"
"""Of a PO's state: the JSON of a `Delivery`; there while the message is under way."""
_MAX_BYTES: Final = 4096


class Delivery(Message):
    """A message as a worker took it up.

    Attributes:
        entry: Its entry.
        host: The worker's host name: its pod's, where there are pods.
        moved: How many deliveries of it before this one ended with the loss of their pod.
        cuts: In how many deliveries before this one its turn was kept.
    """

    entry: Id
    host: Id
    moved: Annotated[int, Field(ge=0, le=MAX_GENERATION)] = 0
    cuts: Annotated[int, Field(ge=0, le=MAX_GENERATION)] = 0


async def delivered(
    redis: RedisConnection, state_key: str, entry: Entry, *, cuts: int = 0
) -> Delivery:
    """The delivery of a message to this worker.

    Args:
        redis: The connection.
        state_key: The session's state.
        entry: What was delivered.
        cuts: In how many deliveries its turn was kept. One that was kept counts there, not here.
    """
    host = socket.gethostname() or "-"
    last = await _last(redis, state_key, entry) if entry.deliveries > 1 else None
    moved = last.moved if last else 0
    if last is not None and last.host != host and last.cuts == cuts:
        moved = min(moved + 1, MAX_GENERATION)
    return Delivery(entry=entry.id, host=host, moved=moved, cuts=cuts)


async def _last(redis: RedisConnection, state_key: str, entry: Entry) -> Delivery | None:
    """The one before, as its worker wrote it down; None when nobody can say."""
    size, text = await redis.run(READ, (state_key,), DELIVERY_FIELD, _MAX_BYTES, decode=False)
    try:
        found = decode_json(Delivery, text) if size > 0 and text else None
    except InvalidMessageError:
        return None
    return found if found is not None and found.entry == entry.id else None


def poisoned(entry: Entry, *, cuts: int = 0, moved: int = 0) -> str | None:
    """Why an entry is not tried again; None for one that is no poison.

    Args:
        entry: What was delivered.
        cuts: How many of its deliveries the cluster cut off; they say nothing against it.
        moved: How many ended with the loss of their pod; nor do the first `MOVED_DELIVERIES`.
    """
    excused = cuts + min(moved, MOVED_DELIVERIES)
    if entry.deliveries - excused < POISONED_DELIVERIES:
        return None
    return (
        f"the message was delivered {entry.deliveries} times and never answered: "
        "each worker that had it crashed or was lost"
    )
