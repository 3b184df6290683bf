"""The artifacts of the attempt that this worker exists for: where they go."""

from collections.abc import Sequence

from orbiter_contracts import ArtifactsReport
from worker_wrapper.artifacts.keeping import Keeper
from worker_wrapper.artifacts.store import ObjectStore
from worker_wrapper.handlers.message_handler import Worker
from worker_wrapper.queue.artifacts import ArtifactRecord


async def keep_artifacts(worker: Worker, patterns: Sequence[str]) -> ArtifactsReport:
    """Keep files of the workspace; whatever goes wrong is in the report."""
    keeper = Keeper(
        worker.settings.workspace_dir,
        _artifact_record(worker),
        _store(worker),
        hurry=worker.shutdown.requested,
        clock=worker.clock,
        log=worker.log,
    )
    return await keeper.keep(patterns)


def _artifact_record(worker: Worker) -> ArtifactRecord | None:
    """Where in Redis the artifacts of the attempt are; None for a task without a record."""
    settings, bound = worker.settings, worker.settings.task
    if bound is None or bound.record is None:
        return None
    return ArtifactRecord(
        worker.redis,
        settings.keys,
        record=bound.record,
        entry=bound.entry_id,
        worker_id=settings.worker_id,
        lease=(settings.lease_key, worker.token),
        retention_seconds=settings.artifacts_retention_seconds,
    )


def _store(worker: Worker) -> tuple[ObjectStore, str] | None:
    """The store, and how the names of the attempt's objects begin; None where there is none."""
    settings, bound = worker.settings, worker.settings.task
    if settings.store is None or bound is None or bound.record is None or bound.name is None:
        return None
    _, uid, attempt = bound.record.rsplit(":", 2)
    client = ObjectStore(
        settings.store, settings.artifacts_access_key_id, settings.artifacts_secret_access_key
    )
    return client, settings.store.attempt(bound.name.partition("/")[0], uid, attempt)
