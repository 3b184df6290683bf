"""The artifacts of a task of the cluster: listed and handed out as whoever asks, by their rights.

Redis has the index and small files, and only who hands in a namespace's tasks, or may read that
user's Secret, may read them (`viewer_redis`). `kubectl orbiter artifacts` does the same, and
fetches what is in a store, too.
"""

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orbiter.client import ClientError
from orbiter.server._internal.cluster_detail import Object, count_of, part_of, text_of
from orbiter.server._internal.errors import RequestError, logged, unknown
from orbiter.server._internal.viewer import Viewer
from orbiter.server._internal.viewer_redis import ViewerRedis
from orbiter.server.cluster_task_models import ClusterArtifact, ClusterArtifacts

if TYPE_CHECKING:
    from orbiter_contracts.artifacts import Artifact, Artifacts

logger = logging.getLogger("orbiter.server")
SECRETS: Final = (("orbiter-producer", "producer-url"), ("orbiter-redis", "developer-url"))
"""Whose user may read what came of tasks: that of producers; else, that of everything."""
_FORGOTTEN: Final = "Redis has no index of them, or no longer"


class KeptArtifacts:
    """Reads artifacts as whoever asks for them.

    Args:
        kubeconfig: Where the API server is.
        reads: Whether the server may read namespaces' Redis at all.
    """

    def __init__(self, kubeconfig: Path | None, *, reads: bool) -> None:
        self._reads = reads
        self._kubeconfig = kubeconfig

    async def listed(self, item: Object, viewer: Viewer, attempt: int | None) -> ClusterArtifacts:
        """Return what was kept of an attempt, as much of it as somebody may know.

        Args:
            item: The task, as the API server has it.
            viewer: Who asks, and may get the task.
            attempt: Which one; None for the latest that has kept something.
        """
        told = told_of(item, attempt)
        try:
            index = await self._index(item, viewer, told.attempt)
        except RequestError as error:
            return told.model_copy(update={"problem": str(error)})
        if index is None:
            return told.model_copy(update={"problem": _FORGOTTEN})
        return told.model_copy(
            update={
                "files": [_shown(file) for file in index.files],
                "count": len(index.files),
                "size_bytes": sum(file.size_bytes for file in index.files),
                "store": index.store.shown if index.store else "",
            }
        )

    async def content(
        self, item: Object, viewer: Viewer, attempt: int, key: str
    ) -> "tuple[Artifact, bytes]":
        """Return a small file that Redis has kept.

        Raises:
            RequestError: It is not there, not theirs, or not what was kept.
        """
        index = await self._index(item, viewer, attempt)
        file = next((each for each in index.files if each.key == key), None) if index else None
        if file is None:
            raise unknown("artifact", key)
        if file.place != "redis":
            raise RequestError(
                409, f"{key} is in the store: {told_of(item, attempt).command} fetches it",
                code="in_store",
            )  # fmt: skip
        data = await self._field(item, viewer, attempt, file.key)
        if len(data) != file.size_bytes or hashlib.sha256(data).hexdigest() != file.sha256:
            raise RequestError(502, f"the bytes of {key} are not those that were kept")
        return file, data

    async def _index(self, item: Object, viewer: Viewer, attempt: int) -> "Artifacts | None":
        from orbiter_contracts.artifact_scripts import read_index
        from orbiter_contracts.artifacts import INDEX

        return read_index(await self._field(item, viewer, attempt, INDEX))

    async def _field(self, item: Object, viewer: Viewer, attempt: int, field: str) -> bytes:
        """Return a field of an attempt's artifacts; nothing when there is none.

        Raises:
            RequestError: Redis cannot be used, or not by them.
        """
        if not self._reads:
            raise RequestError(
                404, "the server reads no artifacts: start it with --transcripts, or set the "
                "chart's server.transcripts", code="no_artifacts",
            )  # fmt: skip
        namespace, key = _place(item, attempt)
        try:
            async with ViewerRedis(viewer, self._kubeconfig).open(namespace, SECRETS) as ask:
                found = await ask("HGET", key, field)
        except ClientError as error:
            if error.code == "not_found":
                raise RequestError(
                    404, f"{error}: no worker runs there", code="no_artifacts"
                ) from error
            logger.warning("artifacts of a task of %s: %s", namespace, logged(error))
            raise _away(namespace) from error
        return found if isinstance(found, bytes) else b""


def told_of(item: Object, attempt: int | None) -> ClusterArtifacts:
    """Return what a task's status says of its artifacts; pure.

    Args:
        item: The task, as the API server has it.
        attempt: Which attempt; None for the latest that has kept something.
    """
    meta, kept = part_of(item, "metadata"), part_of(part_of(item, "status"), "artifacts")
    latest = count_of(kept.get("attempt"))
    number = latest if attempt is None else attempt
    known = number == latest
    names = kept.get("names")
    return ClusterArtifacts(
        attempt=number,
        files=[
            ClusterArtifact(name=text_of(name, 512))
            for name in (names[:10] if known and isinstance(names, list) else ())
        ],
        count=count_of(kept.get("count")) if known else 0,
        size_bytes=count_of(kept.get("bytes")) if known else 0,
        command=f"kubectl orbiter artifacts {meta.get('name')} -n {meta.get('namespace')} "
        f"--attempt {number} --fetch DIR",
    )


def _shown(file: "Artifact") -> ClusterArtifact:
    key = file.key if file.place == "redis" else ""
    return ClusterArtifact(name=file.name, size_bytes=file.size_bytes, place=file.place, key=key)


def _place(item: Object, attempt: int) -> tuple[str, str]:
    """The namespace of a task, and the key of an attempt's artifacts there."""
    from orbiter_contracts.queues import BARE
    from orbiter_contracts.stream_names import keys_with

    meta, status = part_of(item, "metadata"), part_of(item, "status")
    namespace = str(meta.get("namespace", ""))
    keys = keys_with(str(status.get("inputStream") or BARE.developer_input))
    if keys.namespace not in ("", namespace):
        raise _away(namespace)
    return namespace, keys.task_artifacts(str(meta.get("uid", "")), attempt)


def _away(namespace: str) -> RequestError:
    return RequestError(
        502, f"Redis of namespace {namespace} does not give them now", code="no_artifacts"
    )
