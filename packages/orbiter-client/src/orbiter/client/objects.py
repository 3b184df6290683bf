"""What an AgentTask says, read from the object as the API server has it: total and bounded.

Who may write a task or its status has a say in each of these texts.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from orbiter.client.models import Task, TaskSummary

PROMPT_CHARS: Final = 8_000
TEXT_CHARS: Final = 4_000
CALL_CHARS: Final = 40_000
"""Of all calls that wait together."""
TOOL_CHARS: Final = 512
MOST_CALLS: Final = 128
MOST_LABELS: Final = 50
"""An object has room for thousands, and a list for a thousand such objects."""
MOST_ATTEMPTS: Final = 999_999
LONGEST_NAME: Final = 253
OPERATOR: Final = "orbiter.dev/operator"
"""Who runs a task that names nobody."""
FINAL: Final = ("Completed", "Failed", "Cancelled")
"""Phases of a task that are never left."""
Object = dict[str, Any]


def read_summary(item: Object) -> TaskSummary:
    """Return what a list tells of a task."""
    return TaskSummary(**summary_fields(item, task_message(item)))


def read_task(item: Object) -> Task:
    """Return what is told of a task."""
    asks = part_of(part_of(item, "status"), "inputRequest") if open_question(item) else {}
    return Task(
        **summary_fields(item, task_message(item)),
        **detail_fields(item),
        uid=text_of(part_of(item, "metadata").get("uid"), 128),
        approval=asks.get("kind") == "approval",
    )


def summary_fields(item: Object, message: str) -> Object:
    """Return the fields of a TaskSummary, also of another object that has such a status."""
    meta, spec, status = (part_of(item, key) for key in ("metadata", "spec", "status"))
    usage, created = part_of(status, "usage"), moment_of(meta.get("creationTimestamp"))
    active = (status.get(key) for key in ("completionTime", "lastActivityTime", "startTime"))
    agent = part_of(status, "agent") or part_of(spec, "agent")
    return {
        "name": str(meta.get("name", "")),
        "namespace": str(meta.get("namespace", "")),
        "phase": text_of(status.get("phase"), 40),
        "agent": text_of(agent.get("type"), 40),
        "message": message[:200],
        "attempts": attempts_of(item),
        "created_at": created,
        "active_at": next((at for at in map(moment_of, active) if at is not None), created),
        "labels": dict(islice(_labels(meta), MOST_LABELS)),
        "cost_usd": money_of(usage.get("costUSD")),
        "input_tokens": count_of(usage.get("inputTokens")),
        "output_tokens": count_of(usage.get("outputTokens")),
    }


def detail_fields(item: Object) -> Object:
    """Return the fields that a Task has beside those of a list."""
    spec, status = part_of(item, "spec"), part_of(item, "status")
    result = part_of(status, "result")
    # the status of a task that has begun knows its agent, with the profile; else the spec
    agent = part_of(status, "agent") or part_of(spec, "agent")
    asks = part_of(status, "inputRequest") if open_question(item) else {}
    calls, cut = _calls(asks.get("calls"))
    return {
        "prompt": text_of(spec.get("prompt"), PROMPT_CHARS),
        "model": text_of(agent.get("model"), 200),
        "reason": text_of(status.get("reason"), 200),
        "progress": text_of(status.get("progress"), 200),
        "summary": text_of(result.get("summary"), TEXT_CHARS),
        "commit": text_of(result.get("commitSHA"), 64),
        "pull_request": _link(result.get("prURL")),
        "question": text_of(asks.get("question"), TEXT_CHARS),
        "question_id": text_of(asks.get("id"), 512),
        "asked_at": moment_of(asks.get("askedAt")),
        "calls": calls,
        "calls_cut": cut,
        "disruptions": count_of(status.get("disruptions")),
        "started_at": moment_of(status.get("startTime")),
        "ended_at": moment_of(status.get("completionTime")),
        "over": status.get("phase") in FINAL,
    }


def task_message(item: Object) -> str:
    """Return what people read first of a task."""
    spec, status = part_of(item, "spec"), part_of(item, "status")
    return str(status.get("message") or spec.get("prompt") or "")


def open_question(item: Object) -> str | None:
    """Return the id of the question that a task waits with; None when none waits."""
    spec, status = part_of(item, "spec"), part_of(item, "status")
    asked, given = part_of(status, "inputRequest").get("id"), spec.get("input")
    if status.get("phase") != "InputRequired" or not isinstance(asked, str) or not asked:
        return None
    answers = given if isinstance(given, list) else []
    return (
        None if asked in [each.get("id") for each in answers if isinstance(each, dict)] else asked
    )


def manager_of(item: Object) -> str | None:
    """Return which program runs a task instead of the operator; None when none does."""
    manager = part_of(item, "spec").get("managedBy")
    return None if manager in (None, OPERATOR) else str(manager)


def attempts_of(item: Object) -> int:
    """Return how many attempts of a task have begun; 0 of a session."""
    return min(count_of(part_of(item, "status").get("attempts")), MOST_ATTEMPTS)


def shown_text(text: str) -> str:
    """Return JSON in which nothing hides, such as marks that turn letters around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def part_of(value: Object, key: str) -> Object:
    """Return a part of an object; an empty one when it is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def text_of(value: object, most: int) -> str:
    """Return the beginning of a text; an empty one when it is none."""
    return value[:most] if isinstance(value, str) else ""


def moment_of(value: object) -> datetime | None:
    """Return a moment, in UTC; None when it is none."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
        # the last day of the year 9999 is none of UTC everywhere
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def count_of(value: object) -> int:
    """Return a count; 0 when it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def money_of(value: object) -> float | None:
    """Return an amount of US dollars; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def _calls(value: object) -> tuple[tuple[Object, ...], bool]:
    """Return the calls that wait, and whether something of them is left out."""
    found, left = value if isinstance(value, list) else [], CALL_CHARS
    told = list[Object]()
    for each in found:
        said = each if isinstance(each, dict) else {}
        tool = str(said.get("tool"))
        arguments = shown_text(json.dumps(said.get("arguments"), ensure_ascii=False))
        if len(told) == MOST_CALLS or left <= 0:
            return tuple(told), True
        told.append({"tool": shown_text(tool[:TOOL_CHARS]), "arguments": arguments[:left]})
        left -= len(arguments)
        if left < 0 or len(tool) > TOOL_CHARS:
            return tuple(told), True
    return tuple(told), False


def _labels(meta: Object) -> Iterator[tuple[str, str]]:
    return ((k, v) for k, v in part_of(meta, "labels").items() if isinstance(v, str))


def _link(value: object) -> str:
    text = text_of(value, 2000)
    return text if text.startswith(("https://", "http://")) else ""
