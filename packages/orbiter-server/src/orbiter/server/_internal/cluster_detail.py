"""What the server tells of one object of the cluster, and where its transcript is: total.

What it says of a task is what the client says of it (`orbiter.client.objects`).
"""

from collections.abc import Iterable
from typing import Any

from orbiter.client.objects import (
    FINAL,
    TEXT_CHARS,
    attempts_of,
    count_of,
    detail_fields,
    manager_of,
    moment_of,
    money_of,
    open_question,
    part_of,
    summary_fields,
    task_message,
    text_of,
)
from orbiter.server._internal.transcripts import Place
from orbiter.server.cluster_models import Action, ClusterDetail, ClusterObject

__all__ = [
    "FINAL", "TEXT_CHARS", "attempts_of", "brief_of", "count_of", "detail_of", "is_over",
    "manager_of", "moment_of", "money_of", "open_question", "part_of", "text_of", "transcript_of",
]  # fmt: skip
Object = dict[str, Any]


def brief_of(item: Object) -> ClusterObject:
    """Return what a list tells of an object.

    Args:
        item: As the API server has it.
    """
    status = part_of(item, "status")
    return ClusterObject(
        **summary_fields(item, _message(item)),
        turns=count_of(status.get("turns") or part_of(status, "usage").get("turns")),
        unpriced=count_of(status.get("unpriced")),
    )


def detail_of(brief: ClusterObject, item: Object, actions: Iterable[Action]) -> ClusterDetail:
    """Return what is told of an object.

    Args:
        brief: The same in the words of a list.
        item: As the API server has it.
        actions: What whoever asks may do with it.
    """
    kept = part_of(part_of(item, "status"), "artifacts")
    return ClusterDetail(
        **brief.model_dump(),
        **detail_fields(item),
        actions=tuple(actions),
        artifacts=count_of(kept.get("count")),
        artifacts_of=count_of(kept.get("attempt")),
        generation=count_of(part_of(item, "metadata").get("generation")),
    )


def is_over(task: ClusterObject, attempt: int) -> bool:
    """Say whether nothing more will come of an attempt of a task."""
    return task.phase in FINAL or task.attempts > attempt


def transcript_of(item: Object, attempt: int) -> Place | None:
    """Return where an attempt's transcript is, or a session's; None when there is none yet."""
    from orbiter_contracts.queues import BARE
    from orbiter_contracts.stream_names import keys_with, read_stream_name

    meta, status = part_of(item, "metadata"), part_of(item, "status")
    namespace, stream = str(meta.get("namespace", "")), status.get("inputStream")
    if "userId" in part_of(item, "spec"):
        name = read_stream_name(stream) if isinstance(stream, str) else None
        if name is None or not name.worker_id or name.keys.namespace not in ("", namespace):
            return None
        return Place(namespace, name.keys.po_transcript(name.worker_id))
    if not attempt:
        return None
    keys = keys_with(str(stream or BARE.developer_input))
    if keys.namespace not in ("", namespace):
        return None
    return Place(namespace, keys.task_transcript(str(meta.get("uid", "")), attempt))


def _message(item: Object) -> str:
    spec, status = part_of(item, "spec"), part_of(item, "status")
    if "userId" not in spec:
        return task_message(item)
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if not isinstance(condition, dict) or condition.get("type") != "Available":
            continue
        if condition.get("status") == "False":
            return str(condition.get("message"))
    turns, pending = count_of(status.get("turns")), count_of(status.get("pendingMessages"))
    words = [f"user {spec['userId']}", f"{turns} turn{'' if turns == 1 else 's'}"]
    return ", ".join(words + ([f"{pending} pending"] if pending else []))
