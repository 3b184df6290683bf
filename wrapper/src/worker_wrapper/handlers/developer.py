"""A developer worker: one task, one outcome, then it leaves.

Bound to an attempt of an AgentTask (TASK_ENTRY_ID) it runs exactly that entry. Standalone it runs
the first unbound entry it gets from the shared queue, or takes over from a worker that died.
"""

import asyncio
from dataclasses import dataclass, replace
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
from worker_wrapper.agents.base import Turn
from worker_wrapper.handlers.message_handler import (
    POISONED_DELIVERIES,
    Answer,
    Worker,
    begin,
    handle,
    poisoned,
)
from worker_wrapper.queue.claims import AttemptClaim, Claim, QueueClaim
from worker_wrapper.queue.heartbeat import BOUND_SECONDS, STANDALONE_SECONDS
from worker_wrapper.queue.streams import BLOCK_SECONDS, Entry, InputStream
from worker_wrapper.session.snapshot import AttemptMemory
from worker_wrapper.settings import BoundTask
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.turn.outputs import developer_output, stand_in, without_turn
from worker_wrapper.turn.turn import take_turn
from worker_wrapper.workspace import workspace
from worker_wrapper.workspace.push_client import take_over


@dataclass(frozen=True, slots=True)
class _Job:
    """A claimed task, and why it must not be run if it must not."""

    claim: Claim
    task: DeveloperWorkerInput
    reason: str | None = None
    error: str | None = None


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
        return _Job(claim, entry.message(DeveloperWorkerInput))
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
        if entry.deliveries >= POISONED_DELIVERIES:
            return _Job(claim, task, "WorkerCrashed", poisoned(entry))
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
        return await _work(worker, job, session_id, stop)

    name = (settings.task and settings.task.name) or task.task_id
    with bound_contextvars(request_id=task.request_id, task=name):
        await handle(
            worker,
            job.claim,
            work,
            renew_seconds=BOUND_SECONDS if settings.task else STANDALONE_SECONDS,
            details={"request_id": task.request_id, "session_id": session_id, "task": name},
            dead_reason=job.error or "",
        )


async def _work(worker: Worker, job: _Job, session_id: str, stop: StopTurn) -> Answer:
    """Prepare the workspace, run the agent in it, and see what became of it."""
    settings, task = worker.settings, job.task
    memory = await AttemptMemory.of(worker.snapshots(), session_id)
    place = (task.workspace, settings.workspace_dir, settings.git_credentials_dir)
    connection = None
    try:
        if settings.worker_handover_dir and task.workspace and task.workspace.git:
            prepared, connection = await take_over(
                settings.worker_handover_dir, task.workspace.git, stop
            )
        else:
            prepared = await workspace.prepare(
                *place, environ=worker.environ, spill_dir=settings.spill_dir, stop=stop
            )
    except workspace.WorkspaceError as error:
        reason = "Terminated" if stop.is_set() else "WorkspaceError"
        report = without_turn(worker.clock(), reason=reason, error=str(error))
        return Answer(developer_output(task, report, worker_id=settings.worker_id))
    report = await take_turn(
        settings.agent,
        Turn(
            prompt=task.prompt,
            timeout_seconds=task.timeout,
            session=memory.session,
            workdir=settings.workspace_dir,
            options=settings.options,
        ),
        developer=True,
        environ=worker.environ,
        stop=stop,
        spill_dir=settings.spill_dir,
        clock=worker.clock,
    )
    snapshot = None
    if report.status == "input_required":
        snapshot, warnings = await memory.keep(report.session)
        report = replace(report, warnings=[*report.warnings, *warnings])
    finished = workspace.Finished(prepared)
    if report.status != "success":
        finished = workspace.unfinished(task.workspace, prepared)
    elif not stop.is_set():
        finished = await workspace.finish(
            *place,
            prepared=prepared,
            environ=worker.environ,
            spill_dir=settings.spill_dir,
            stop=stop,
            push_with=connection.push if connection else None,
        )
    if connection:
        connection.close()
    output = developer_output(
        task,
        replace(report, warnings=[*report.warnings, *finished.warnings]),
        worker_id=settings.worker_id,
        workspace=finished.report if task.workspace and task.workspace.git else None,
    )
    return Answer(output, snapshot=snapshot)
