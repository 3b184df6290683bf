"""A developer worker: one task, one outcome, then it leaves.

Bound to an attempt of an AgentTask (TASK_ENTRY_ID) it runs exactly that entry. Standalone it runs
the first unbound entry it gets from the shared queue, or takes over from a worker that died.
"""

import asyncio
from dataclasses import dataclass
from uuid import uuid4

from structlog.contextvars import bound_contextvars

from orbiter_contracts import (
    DeveloperWorkerInput,
    InvalidMessageError,
)
from orbiter_contracts.queues import (
    DEVELOPER_GROUP,
    TASK_FIELD,
    Keys,
)
from worker_wrapper.handlers.developer_turn import work_on
from worker_wrapper.handlers.message_handler import (
    Answer,
    Worker,
    begin,
    handle,
)
from worker_wrapper.queue.claims import AttemptClaim, Claim, QueueClaim
from worker_wrapper.queue.deliveries import poisoned
from worker_wrapper.queue.heartbeat import (
    BOUND_SECONDS,
    CHECKPOINT_RESERVE_SECONDS,
    RESERVE_SECONDS,
    STANDALONE_SECONDS,
)
from worker_wrapper.queue.streams import BLOCK_SECONDS, Entry, InputStream
from worker_wrapper.settings import BoundTask
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.outputs import developer_output, stand_in, without_turn


@dataclass(frozen=True, slots=True)
class _Job:
    """A claimed task, and why it must not be run if it must not.

    `again`: a worker of the same attempt has begun before, and was taken away.
    """

    claim: Claim
    task: DeveloperWorkerInput
    reason: str | None = None
    error: str | None = None
    again: bool = False


async def run(worker: Worker) -> None:
    """Answer one task, unless there is none left or we are asked to leave before one came."""
    keys = worker.settings.keys
    stream = InputStream(
        worker.redis, keys.developer_input, DEVELOPER_GROUP, worker.settings.worker_id
    )
    bound = worker.settings.task
    if bound:
        await begin(worker, stream)
        job = await _bound(stream, bound, keys)
        if job is None:
            worker.log.info("already_done", entry=bound.entry_id)
    elif await worker.shutdown.unless(begin(worker, stream)):
        job = await worker.shutdown.unless(_next_unbound(stream, worker))
    else:
        job = None
    if job is not None:
        await _answer(worker, job)
        await stream.leave()


async def _bound(stream: InputStream, bound: BoundTask, keys: Keys) -> _Job | None:
    """Claim the one entry we exist for; None when it no longer exists.

    How often it was delivered says nothing here: standalone workers are handed it too.
    """
    again = await stream.held_before(bound.entry_id)
    entry = await stream.claim(bound.entry_id)
    if entry is None:
        return None
    claim: Claim
    if bound.record and bound.name and bound.attempt:
        claim = AttemptClaim(
            *(stream, entry),
            keys=keys,
            record=bound.record,
            task=bound.name,
            attempt=bound.attempt,
        )
    else:
        claim = _queue_claim(stream, entry, keys, firm=True)
    try:
        return _Job(claim, entry.message(DeveloperWorkerInput), again=again)
    except InvalidMessageError as error:
        return _Job(claim, stand_in(entry, bound), "InvalidMessage", str(error))


async def _next_unbound(stream: InputStream, worker: Worker) -> _Job:
    """Wait for a task of our own; what nobody can read goes to the dead letters."""
    loop = asyncio.get_running_loop()
    next_takeover_at = loop.time()
    while True:
        entry = None
        if loop.time() >= next_takeover_at:
            entry = await _abandoned(stream)
            if entry is None:
                next_takeover_at = loop.time() + BLOCK_SECONDS
        entry = entry or await stream.next()
        if entry is None or TASK_FIELD in entry.fields:
            continue
        claim = _queue_claim(stream, entry, worker.settings.keys)
        try:
            task = entry.message(DeveloperWorkerInput)
        except InvalidMessageError as error:
            worker.log.warning("dead_letter", entry=entry.id, reason=str(error))
            await claim.settle("", "", dead_reason=str(error))
            continue
        if why := poisoned(entry):
            return _Job(claim, task, "WorkerCrashed", why)
        return _Job(claim, task)


def _queue_claim(
    stream: InputStream, entry: Entry, keys: Keys, *, firm: bool = False
) -> QueueClaim:
    """A claim that has no record."""
    output, lifecycle = keys.developer_output, keys.lifecycle
    return QueueClaim(stream, entry, output=output, lifecycle=lifecycle, firm=firm)


async def _abandoned(stream: InputStream) -> Entry | None:
    """Take over what a dead worker left, if there is anything of that kind."""
    async for entry in stream.abandoned():
        if TASK_FIELD not in entry.fields and (taken := await stream.take_over(entry)):
            return taken
    return None


async def _answer(worker: Worker, job: _Job) -> None:
    settings, task = worker.settings, job.task
    session_id = settings.session_id or str(uuid4())

    async def work(stop: StopTurn) -> Answer:
        if job.reason:
            report = without_turn(worker.clock(), reason=job.reason, error=job.error)
            return Answer(developer_output(task, report, worker_id=settings.worker_id))
        # The Job behind one that is gone has another name, and is told why.
        again = job.again or bool(settings.task and settings.disruption_note)
        return await work_on(worker, task, session_id, stop, again=again)

    name = (settings.task and settings.task.name) or task.task_id
    with bound_contextvars(request_id=task.request_id, task=name):
        await handle(
            worker,
            job.claim,
            work,
            renew_seconds=BOUND_SECONDS if settings.task else STANDALONE_SECONDS,
            details={"request_id": task.request_id, "session_id": session_id, "task": name},
            dead_reason=job.error or "",
            reserve_seconds=CHECKPOINT_RESERVE_SECONDS
            if settings.outlives_disruption
            else RESERVE_SECONDS,
            patient=bool(settings.task and settings.task.record),
        )
