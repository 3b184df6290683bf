"""What the server tells of one object of the cluster, and where its transcript is: total."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from orbiter.server._internal.transcripts import Place
from orbiter.server.cluster_models import Action, ClusterDetail, ClusterObject, WaitingCall

PROMPT_CHARS = 8_000
TEXT_CHARS = 4_000
CALL_CHARS = 40_000
"""Of all calls that wait together."""
TOOL_CHARS = 512
MOST_CALLS = 128
MOST_LABELS = 50
"""An object has room for thousands, and a list for a thousand such objects."""
MOST_ATTEMPTS = 999_999
FINAL = ("Completed", "Failed", "Cancelled")
"""Phases of a task that are never left."""
Object = dict[str, Any]


def brief_of(item: Object) -> ClusterObject:
    """Return what a list tells of an object.

    Args:
        item: As the API server has it.
    """
    meta, spec, status = (part_of(item, key) for key in ("metadata", "spec", "status"))
    usage, created = part_of(status, "usage"), moment_of(meta.get("creationTimestamp"))
    active = (status.get(key) for key in ("completionTime", "lastActivityTime", "startTime"))
    return ClusterObject(
        name=str(meta.get("name", "")),
        namespace=str(meta.get("namespace", "")),
        phase=text_of(status.get("phase"), 40),
        agent=text_of(_agent(item).get("type"), 40),
        message=_message(spec, status)[:200],
        attempts=attempts_of(item),
        turns=count_of(status.get("turns") or usage.get("turns")),
        unpriced=count_of(status.get("unpriced")),
        created_at=created,
        active_at=next((at for at in map(moment_of, active) if at is not None), created),
        labels=dict(islice(_labels(meta), MOST_LABELS)),
        cost_usd=money_of(usage.get("costUSD")),
        input_tokens=count_of(usage.get("inputTokens")),
        output_tokens=count_of(usage.get("outputTokens")),
    )


def _agent(item: Object) -> Object:
    """Who works: the status of a task that has begun knows it, with its profile; else the spec."""
    spec, status = part_of(item, "spec"), part_of(item, "status")
    return part_of(status, "agent") or part_of(spec, "agent")


def detail_of(brief: ClusterObject, item: Object, actions: Iterable[Action]) -> ClusterDetail:
    """Return what is told of an object.

    Args:
        brief: The same in the words of a list.
        item: As the API server has it.
        actions: What whoever asks may do with it.
    """
    spec, status = part_of(item, "spec"), part_of(item, "status")
    result = part_of(status, "result")
    asks = part_of(status, "inputRequest") if open_question(item) else {}
    calls, cut = _calls(asks.get("calls"))
    return ClusterDetail(
        **brief.model_dump(),
        actions=tuple(actions),
        prompt=text_of(spec.get("prompt"), PROMPT_CHARS),
        model=text_of(_agent(item).get("model"), 200),
        reason=text_of(status.get("reason"), 200),
        progress=text_of(status.get("progress"), 200),
        summary=text_of(result.get("summary"), TEXT_CHARS),
        commit=text_of(result.get("commitSHA"), 64),
        pull_request=_link(result.get("prURL")),
        question=text_of(asks.get("question"), TEXT_CHARS),
        question_id=text_of(asks.get("id"), 512),
        asked_at=moment_of(asks.get("askedAt")),
        calls=calls,
        calls_cut=cut,
        disruptions=count_of(status.get("disruptions")),
        artifacts=count_of(part_of(status, "artifacts").get("count")),
        artifacts_of=count_of(part_of(status, "artifacts").get("attempt")),
        generation=count_of(part_of(item, "metadata").get("generation")),
        started_at=moment_of(status.get("startTime")),
        ended_at=moment_of(status.get("completionTime")),
        over=status.get("phase") in FINAL,
    )


def open_question(item: Object) -> str | None:
    """Return the id of the question that a task waits with; None when none waits."""
    spec, status = part_of(item, "spec"), part_of(item, "status")
    asked, given = part_of(status, "inputRequest").get("id"), spec.get("input")
    if status.get("phase") != "InputRequired" or not isinstance(asked, str):
        return None
    answers = given if isinstance(given, list) else []
    return (
        None if asked in [each.get("id") for each in answers if isinstance(each, dict)] else asked
    )


def manager_of(item: Object) -> str | None:
    """Return which program runs a task instead of the operator; None when none does."""
    from orbiter_contracts.attempts import OPERATOR

    manager = part_of(item, "spec").get("managedBy")
    return None if manager in (None, OPERATOR) else str(manager)


def attempts_of(item: Object) -> int:
    """Return how many attempts of a task have begun; 0 of a session."""
    return min(count_of(part_of(item, "status").get("attempts")), MOST_ATTEMPTS)


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


def _message(spec: Object, status: Object) -> str:
    if "userId" not in spec:
        return str(status.get("message") or spec.get("prompt") or "")
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if not isinstance(condition, dict) or condition.get("type") != "Available":
            continue
        if condition.get("status") == "False":
            return str(condition.get("message"))
    turns, pending = count_of(status.get("turns")), count_of(status.get("pendingMessages"))
    words = [f"user {spec['userId']}", f"{turns} turn{'' if turns == 1 else 's'}"]
    return ", ".join(words + ([f"{pending} pending"] if pending else []))


def _calls(value: object) -> tuple[tuple[WaitingCall, ...], bool]:
    """Return the calls that wait, and whether something of them is left out."""
    found, left = value if isinstance(value, list) else [], CALL_CHARS
    told = list[WaitingCall]()
    for each in found:
        said = each if isinstance(each, dict) else {}
        tool, arguments = str(said.get("tool")), _shown(said.get("arguments"))
        if len(told) == MOST_CALLS or left <= 0:
            return tuple(told), True
        told.append(WaitingCall(tool=_seen(tool[:TOOL_CHARS]), arguments=arguments[:left]))
        left -= len(arguments)
        if left < 0 or len(tool) > TOOL_CHARS:
            return tuple(told), True
    return tuple(told), False


def _shown(arguments: object) -> str:
    return _seen(json.dumps(arguments, ensure_ascii=False))


def _seen(text: str) -> str:
    """Return JSON in which nothing hides, such as marks that turn letters around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def part_of(value: Object, key: str) -> Object:
    """Return a part of an object; an empty one when it is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _labels(meta: Object) -> Iterator[tuple[str, str]]:
    return ((k, v) for k, v in part_of(meta, "labels").items() if isinstance(v, str))


def text_of(value: object, most: int) -> str:
    """Return a text, cut off; an empty one of whatever is none."""
    return value[:most] if isinstance(value, str) else ""


def _link(value: object) -> str:
    text = text_of(value, 2000)
    return text if text.startswith(("https://", "http://")) else ""


def moment_of(value: object) -> datetime | None:
    """Return a time, of UTC; None of whatever is none."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
        # the last day of the year 9999 is none of UTC everywhere
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def count_of(value: object) -> int:
    """Return a count; 0 of whatever is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def money_of(value: object) -> float | None:
    """Return US dollars; None of whatever is no sum."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None
