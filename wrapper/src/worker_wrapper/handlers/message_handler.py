"""One message, from `busy` to its one published outcome: what developers and PO have in common.

The work itself (workspace, agent, conversation) comes as a function from developer.py or po.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from orbiter_contracts import WorkerOutput
from worker_wrapper.handlers.insisting import insist
from worker_wrapper.logging import Log
from worker_wrapper.queue.claims import Claim
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError
from worker_wrapper.queue.heartbeat import RESERVE_SECONDS, keep_claim, obey_shutdown
from worker_wrapper.queue.lifecycle import Details, Lifecycle, event_for
from worker_wrapper.queue.session_state import Bookkeeping, Snapshot
from worker_wrapper.queue.spool import Spool
from worker_wrapper.queue.streams import InputStream
from worker_wrapper.queue.transcript import TranscriptStream
from worker_wrapper.redact import Redactor
from worker_wrapper.session.snapshot import SnapshotStore
from worker_wrapper.settings import Settings
from worker_wrapper.shutdown import Shutdown, StopTurn
from worker_wrapper.turn.publishing import publishable

if TYPE_CHECKING:
    from worker_wrapper.transcript.storing import TranscriptStore


class DisruptedError(Exception):
    """This pod has to go before its attempt is done: another one goes on with it."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What this worker is made of; worker.py makes it, everything below is given it.

    `token` is what it holds the lease of its name with. `transcript` is where it writes what
    its agent does; None for a developer without a task's record. `storing` stores all of it, where
    there is a store.
    """

    settings: Settings
    environ: Mapping[str, str]
    redis: RedisConnection
    lifecycle: Lifecycle
    shutdown: Shutdown
    redactor: Redactor
    clock: Callable[[], datetime]
    log: Log
    token: str
    transcript: TranscriptStream | None = None
    storing: "TranscriptStore | None" = None

    @property
    def state_key(self) -> str:
        """Key of a PO's state."""
        return self.settings.keys.po_state(self.settings.worker_id)

    @property
    def home(self) -> Path:
        """Where the agent keeps its conversations."""
        return Path(self.environ.get("HOME") or self.settings.spill_dir)

    def snapshots(self) -> SnapshotStore | None:
        """What stores and restores the agent's memory; None without SNAPSHOT_KEY."""
        settings = self.settings
        if settings.snapshot is None:
            return None
        return SnapshotStore(
            self.redis, settings.snapshot, settings.agent, self.environ, self.home, self.log
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a message: all that is published and stored for it, in one step.

    Attributes:
        output: What its sender is told.
        bookkeeping: What a PO's state says afterwards; None for a developer.
        snapshot: What the agent remembers, if that is kept.
    """

    output: WorkerOutput
    bookkeeping: Bookkeeping | None = None
    snapshot: Snapshot | None = None


async def begin(
    worker: Worker, stream: InputStream, prepare: Callable[[], Awaitable[None]] | None = None
) -> bool:
    """Publish that we are there, prepare and join the stream's group; True once that is done."""
    await worker.lifecycle.publish("started")
    if prepare is not None:
        await prepare()
    await stream.join()
    worker.log.info("listening", stream=stream.key, group=stream.group, consumer=stream.consumer)
    await worker.lifecycle.publish("ready")
    return True


async def handle(
    worker: Worker,
    claim: Claim,
    work: Callable[[StopTurn], Awaitable[Answer]],
    *,
    renew_seconds: float,
    details: Details,
    dead_reason: str = "",
    take_up: Callable[[], Awaitable[None]] | None = None,
    reserve_seconds: float = RESERVE_SECONDS,
    patient: bool = False,
    spool: Spool | None = None,
) -> None:
    """Do the work for one claimed entry and publish what came of it.

    Args:
        worker: This worker.
        claim: The entry's claim; it is kept while the work goes on.
        work: What to do. Told to stop, it ends early and still says what came of it.
        renew_seconds: How often to renew the claim.
        details: What the lifecycle events say about it.
        dead_reason: Why the entry goes to the dead-letter stream as well, if it does.
        take_up: Publishes that we are busy, for a worker that has more to say then.
        reserve_seconds: Part of the grace period that is kept for what comes after the turn.
        patient: Whether an outcome that cannot be published is kept, and tried again, for as long
            as the pod lives.
        spool: Takes an outcome that cannot be published, for who starts on this disk next.

    Raises:
        DisruptedError: The work goes on elsewhere, and there is nothing to publish.
        RedisUnavailableError: The outcome could not be published; it is in the log instead.
        ResponseError: Nor will it be later.
    """
    stop = StopTurn()
    if worker.shutdown.requested.is_set():
        stop.set("terminated")
    await (take_up() if take_up else worker.lifecycle.publish("busy", details))
    async with _beside(
        keep_claim(claim, stop, worker.shutdown, every_seconds=renew_seconds, log=worker.log),
        obey_shutdown(
            stop,
            worker.shutdown,
            grace_seconds=worker.settings.grace_seconds,
            reserve_seconds=reserve_seconds,
        ),
    ):
        answer = await work(stop)
    if stop.reason == "cancelled":
        worker.log.warning("superseded", entry=claim.entry.id)
        return
    output = answer.output
    event = worker.lifecycle.event(event_for(output.status), {**details, "status": output.status})
    published = publishable(output, worker.redactor).model_dump_json()

    async def settle() -> bool:
        return await claim.settle(
            published,
            event.model_dump_json(),
            dead_reason=dead_reason,
            bookkeeping=answer.bookkeeping,
            snapshot=answer.snapshot,
        )

    try:
        grace = worker.settings.grace_seconds
        settled = await (
            insist(settle, worker.shutdown, grace_seconds=grace, log=worker.log)
            if patient
            else settle()
        )
    except (RedisUnavailableError, ResponseError):
        entry, kept = claim.entry.id, False
        if spool is not None:
            kept = spool.keep(entry, published, answer.bookkeeping, answer.snapshot)
        worker.log.error("outcome_not_published", entry=entry, output=published, spooled=kept)
        raise
    worker.log.info(
        "answered" if settled else "superseded",
        entry=claim.entry.id,
        status=output.status,
        reason=output.reason,
        duration_ms=output.duration_ms,
    )


@asynccontextmanager
async def _beside(*watchers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run watchers while the body runs."""
    tasks = [asyncio.create_task(watcher) for watcher in watchers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
