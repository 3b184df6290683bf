"""What the server tells of one object of the cluster, and where its transcript is: total."""

from datetime import datetime
from typing import Any

from orbiter.server._internal.transcripts import Place
from orbiter.server.cluster_models import ClusterDetail
from orbiter.server.models import ClusterObject

PROMPT_CHARS = 8_000
TEXT_CHARS = 4_000
MOST_ATTEMPTS = 999_999
_FINAL = ("Completed", "Failed", "Cancelled")
Object = dict[str, Any]


def detail_of(brief: ClusterObject, item: Object) -> ClusterDetail:
    """Return what is told of an object.

    Args:
        brief: The same in the words of a list.
        item: As the API server has it.
    """
    spec, status = _map(item, "spec"), _map(item, "status")
    usage, result, asks = (_map(status, key) for key in ("usage", "result", "inputRequest"))
    return ClusterDetail(
        **brief.model_dump(),
        prompt=_text(spec.get("prompt"), PROMPT_CHARS),
        model=_text(_map(spec, "agent").get("model"), 200),
        reason=_text(status.get("reason"), 200),
        progress=_text(status.get("progress"), 200),
        summary=_text(result.get("summary"), TEXT_CHARS),
        commit=_text(result.get("commitSHA"), 64),
        pull_request=_link(result.get("prURL")),
        question=_text(asks.get("question"), TEXT_CHARS),
        disruptions=_count(status.get("disruptions")),
        turns=_count(status.get("turns") or usage.get("turns")),
        cost_usd=_money(usage.get("costUSD")),
        input_tokens=_count(usage.get("inputTokens")),
        output_tokens=_count(usage.get("outputTokens")),
        started_at=_moment(status.get("startTime")),
        ended_at=_moment(status.get("completionTime")),
        over=status.get("phase") in _FINAL,
    )


def attempts_of(item: Object) -> int:
    """Return how many attempts of a task have begun; 0 of a session."""
    return min(_count(_map(item, "status").get("attempts")), MOST_ATTEMPTS)


def is_over(task: ClusterObject, attempt: int) -> bool:
    """Say whether nothing more will come of an attempt of a task."""
    return task.phase in _FINAL or task.attempts > attempt


def transcript_of(item: Object, attempt: int) -> Place | None:
    """Return where an attempt's transcript is, or a session's; None when there is none yet."""
    from orbiter_contracts.queues import BARE, PREFIX, Keys
    from orbiter_contracts.stream_names import read_stream_name

    meta, status = _map(item, "metadata"), _map(item, "status")
    namespace, stream = str(meta.get("namespace", "")), status.get("inputStream")
    if "userId" in _map(item, "spec"):
        name = read_stream_name(stream) if isinstance(stream, str) else None
        if name is None or not name.worker_id or name.keys.namespace not in ("", namespace):
            return None
        return Place(namespace, name.keys.po_transcript(name.worker_id))
    if not attempt:
        return None
    prefix = PREFIX.match(str(stream or BARE.developer_input))
    keys = Keys(prefix[0] if prefix else "")
    if keys.namespace not in ("", namespace):
        return None
    return Place(namespace, keys.task_transcript(str(meta.get("uid", "")), attempt))


def _map(value: Object, key: str) -> Object:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _text(value: object, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def _link(value: object) -> str:
    text = _text(value, 2000)
    return text if text.startswith(("https://", "http://")) else ""


def _moment(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _money(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None
