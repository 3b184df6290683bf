"""Put a worker together, let it work, and say how it went as an exit code.

__main__.py runs this; it is the only place where the parts are made.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from redis.exceptions import ResponseError

from orbiter_contracts.exit_codes import INTERRUPTED, NAME_LOST, UNUSABLE
from orbiter_contracts.queues import ATTEMPT_FIELD, TASK_FIELD, transcript_of
from worker_wrapper.handlers.insisting import PUBLISH_SECONDS
from worker_wrapper.handlers.message_handler import DisruptedError, Worker
from worker_wrapper.logging import Log, configure
from worker_wrapper.queue.connection import RedisConnection, RedisUnavailableError
from worker_wrapper.queue.lease import Lease, NameInUseError
from worker_wrapper.queue.lifecycle import Lifecycle
from worker_wrapper.queue.presence import Presence
from worker_wrapper.queue.transcript import TranscriptStream
from worker_wrapper.redact import Redactor
from worker_wrapper.settings import Settings
from worker_wrapper.shutdown import Shutdown

if TYPE_CHECKING:
    from worker_wrapper.transcript.storing import TranscriptStore

OK: Final = 0
CRASHED: Final = 1
REDIS_UNAVAILABLE: Final = 3
_LAST_WORDS_SECONDS: Final = 5.0
_ERROR_CHARACTERS: Final = 200


async def run(settings: Settings, environ: Mapping[str, str]) -> int:
    """Work until there is nothing more to do or somebody says so.

    Returns:
        The exit code: 0 when whatever came of it was published, 1 when this program has a mistake,
        2 when another process works under its name, 3 when Redis was not to be had, 4 when another
        process took the name over, 143 when it was asked to leave and another pod goes on with the
        attempt.
    """
    redactor = Redactor.of(environ)
    log = configure(redactor, level=settings.log_level, worker_id=settings.worker_id)
    shutdown = Shutdown()
    shutdown.install(asyncio.get_running_loop())
    redis = _connection(settings, log, shutdown)
    if settings.task and settings.task.record:
        redis.insists = _until_it_has_begun(shutdown)
    presence = Presence()
    storing = _storing(settings, log)
    worker = Worker(
        settings=settings,
        environ=environ,
        redis=redis,
        lifecycle=Lifecycle(
            redis,
            settings.worker_id,
            stream=settings.keys.lifecycle,
            clock=_now,
            routing=_routing(settings),
            state_key=_state_key(settings),
        ),
        shutdown=shutdown,
        redactor=redactor,
        clock=_now,
        log=log,
        token=presence.token,
        transcript=_transcript(settings, log, shutdown, storing),
        storing=storing,
    )
    name = settings.worker_id
    lease = Lease(redis, settings.lease_key, name=name, log=log, presence=presence)
    try:
        await shutdown.unless(lease.acquire())
        async with lease.kept(_connection(settings, log, shutdown), shutdown):
            # Asked to leave before we had it, we may have been about to take it: it is given back.
            if not shutdown.requested.is_set():
                return await _lifetime(worker)
        return INTERRUPTED if settings.task else OK
    except NameInUseError as error:
        log.error("unusable_name", error=str(error), exit_code=UNUSABLE)
        return _end(UNUSABLE, str(error))
    except (RedisUnavailableError, ResponseError) as error:
        return await _without_redis(worker, error)
    finally:
        if worker.transcript is not None:
            await worker.transcript.close()
        if storing is not None:
            await storing.close(leaving=shutdown.requested.is_set())
        await redis.close()
        presence.close()


async def _lifetime(worker: Worker) -> int:
    """Work under a name that is ours, and say how that went."""
    try:
        await _work(worker)
        if worker.shutdown.superseded.is_set():
            return _end(NAME_LOST, _lost(worker.settings.worker_id))
        await _farewell(worker)
    except DisruptedError as error:
        worker.log.warning("disrupted", exit_code=INTERRUPTED)
        await _farewell(worker)
        return _end(INTERRUPTED, str(error))
    except (RedisUnavailableError, ResponseError) as error:
        return await _without_redis(worker, error)
    except Exception as error:
        # A mistake of ours: said here, because a bare traceback could show a secret.
        worker.log.exception("crashed", exit_code=CRASHED)
        await _last_words(worker, "WrapperCrashed", error, CRASHED)
        return CRASHED
    return OK


def _end(exit_code: int, sentence: str) -> int:
    """Say last, in words, why we leave: Kubernetes keeps the end of the log for the operator."""
    print(f"worker-wrapper: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
    return exit_code


def _lost(worker_id: str) -> str:
    return (
        f"WORKER_ID {worker_id} was lost to another process of that name while this one worked; "
        "give each a name of its own"
    )


async def _without_redis(worker: Worker, error: Exception) -> int:
    worker.log.error("redis_unavailable", error=str(error), exit_code=REDIS_UNAVAILABLE)
    await _last_words(worker, "RedisUnavailable", error, REDIS_UNAVAILABLE)
    return REDIS_UNAVAILABLE


async def _farewell(worker: Worker) -> None:
    """Say that we leave; with all work done, failing to say so is no failure."""
    try:
        await worker.lifecycle.publish("stopped", tries=2)
    except (RedisUnavailableError, ResponseError) as error:
        worker.log.warning("stopped_unannounced", error=str(error))


async def _last_words(worker: Worker, reason: str, error: Exception, exit_code: int) -> None:
    """Say that we failed and leave, once and without patience: the log has it."""
    if worker.shutdown.superseded.is_set():
        return
    said: str = worker.redactor.scrub(f"{type(error).__name__}: {error}")
    details = {"reason": reason, "error": said[:_ERROR_CHARACTERS], "exit_code": str(exit_code)}
    try:
        async with asyncio.timeout(_LAST_WORDS_SECONDS):
            await worker.lifecycle.publish("failed", details, tries=1)
            await worker.lifecycle.publish("stopped", tries=1)
    except Exception as unpublished:
        worker.log.debug("end_unannounced", error=str(unpublished))


async def _work(worker: Worker) -> None:
    """Import the one kind of worker that is needed, and run it."""
    if worker.settings.worker_type == "po":
        from worker_wrapper.handlers import po

        await po.run(worker)
    else:
        from worker_wrapper.handlers import developer

        await developer.run(worker)


def _routing(settings: Settings) -> dict[str, str]:
    """What tells the operator whose worker an event is about."""
    task = settings.task
    if task is None or task.name is None:
        return {}
    return {TASK_FIELD: task.name, ATTEMPT_FIELD: str(task.attempt)}


def _connection(settings: Settings, log: Log, shutdown: Shutdown) -> RedisConnection:
    """Who calls functions has an operator, who makes its user and loads them in time."""
    functions = _scripts(settings) == "Functions"
    waits = (lambda: not shutdown.requested.is_set()) if functions else None
    return RedisConnection(settings.redis_url, log, waits=waits)


def _storing(settings: Settings, log: Log) -> "TranscriptStore | None":
    """What stores the whole transcript; None where there is no store, or no right to it."""
    keys = settings.artifacts_access_key_id, settings.artifacts_secret_access_key
    if settings.store is None or settings.artifacts_transcript is None or not all(keys):
        return None
    from worker_wrapper.artifacts.store import ObjectStore
    from worker_wrapper.transcript.parts import Parts
    from worker_wrapper.transcript.storing import TranscriptStore

    store = ObjectStore(settings.store, *keys)
    return TranscriptStore(Parts(settings.spill_dir), store, settings.artifacts_transcript, log)


def _transcript(
    settings: Settings, log: Log, shutdown: Shutdown, storing: "TranscriptStore | None"
) -> TranscriptStream | None:
    """Where what the agent does is written; of a task without a record nobody could find it."""
    if settings.worker_type == "po":
        key = settings.keys.po_transcript(settings.worker_id)
    elif settings.task is not None and settings.task.record is not None:
        key = transcript_of(settings.task.record)
    else:
        return None
    return TranscriptStream(
        lambda: _connection(settings, log, shutdown),
        key,
        expires=_scripts(settings) == "Eval",
        appended=storing.add if storing else None,
    )


def _scripts(settings: Settings) -> str:
    return settings.redis_scripts or ("Functions" if settings.key_prefix else "Eval")


def _until_it_has_begun(shutdown: Shutdown) -> Callable[[], bool]:
    """A Job's worker that leaves fails its attempt, so it waits for Redis like for its outcome."""
    clock = asyncio.get_running_loop().time
    until = clock() + PUBLISH_SECONDS
    return lambda: not shutdown.requested.is_set() and clock() < until


def _state_key(settings: Settings) -> str | None:
    return settings.keys.po_state(settings.worker_id) if settings.worker_type == "po" else None


def _now() -> datetime:
    return datetime.now(UTC)
