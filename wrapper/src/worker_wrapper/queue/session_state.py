"""What a PO worker writes down about itself: the changes of its state hash, and its turns.

Pure: each function says what changes at one moment; lifecycle.py and claims.py carry them to
Redis together with the event or the output they belong to.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from orbiter_contracts import (
    LifecycleEventName,
    PORotation,
    POState,
    POTurn,
    POWorkerInput,
    POWorkerOutput,
    SnapshotReport,
)
from worker_wrapper.queue.changes import Changes
from worker_wrapper.queue.deliveries import DELIVERY_FIELD, Delivery

KEPT_TURNS: Final = 200
KEPT_CHARACTERS: Final = 4000
"""How much of a prompt or an answer is kept in the list of turns."""


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """What of a PO's state is stored with an answer.

    Attributes:
        changes: Of the state.
        turn: The turn's JSON; "" when the agent was not asked.
    """

    changes: Changes = field(default_factory=dict)
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot ready to be stored.

    Attributes:
        key: Where to.
        data: The snapshot; None when there is nothing to store.
        report: What the state says of it.
        why: What is the matter with the agent's session when it is not stored.
    """

    key: str
    data: bytes | None
    report: SnapshotReport
    why: str = ""


def moved(event: LifecycleEventName, now: datetime) -> Changes:
    """What a lifecycle event that stands for itself means."""
    match event:
        case "started":
            begun = dict.fromkeys(("request_id", "ready_at", "busy_at", "first_output_at"), "")
            return {"state": "starting", "started_at": now.isoformat(), **begun}
        case "ready":
            return {"state": "ready", "request_id": "", "?ready_at": now.isoformat()}
        case "stopped":
            return {"state": "stopped", "request_id": ""}
        case _:
            return {}


def taken(
    message: POWorkerInput,
    session_id: str,
    rotation: PORotation | None,
    before: POState,
    delivery: Delivery,
    now: datetime,
    *,
    turn: int = 0,
) -> Changes:
    """A message was taken up: in a turn, and with a new session as the last rotation, if so."""
    changes = {
        "state": "busy",
        "request_id": message.request_id,
        "user_id": str(message.user_id),
        "session_id": session_id,
        "last_activity": now.isoformat(),
        "?busy_at": now.isoformat(),
        DELIVERY_FIELD: delivery.model_dump_json(),
    }
    if turn:
        changes["asked"] = str(turn)
    if rotation is None:
        return changes
    return {
        **changes,
        "rotations": str(before.rotations + 1),
        "rotation": rotation.model_dump_json(by_alias=True),
    }


def answered(
    output: POWorkerOutput,
    *,
    turn: int,
    context_tokens: int | None,
    snapshot: SnapshotReport | None,
    now: datetime,
) -> Changes:
    """A message was answered.

    Args:
        output: The answer.
        turn: Which of the session's turns that was; 0 when the agent was not asked.
        context_tokens: How large the conversation is; None when nobody says.
        snapshot: What became of the agent's memory, where one is kept.
        now: When.
    """
    changes = {
        "state": "ready",
        "request_id": "",
        DELIVERY_FIELD: "",
        "last_activity": now.isoformat(),
        "?first_output_at": now.isoformat(),
    }
    if context_tokens is not None:
        changes["context_tokens"] = str(context_tokens)
    if snapshot is not None:
        changes["snapshot"] = snapshot.model_dump_json(exclude_none=True)
    if not turn:
        return changes
    usage = output.usage
    changes["settled"] = str(turn)
    counts = {"+turns": 1.0}
    if usage is None or usage.cost_usd is None:
        counts["+unpriced"] = 1.0
    if usage is not None:
        counts |= {
            "+input_tokens": usage.input_tokens,
            "+output_tokens": usage.output_tokens,
            "+cache_read_tokens": usage.cache_read_tokens,
            "+cache_write_tokens": usage.cache_write_tokens,
            "+cost_usd": usage.cost_usd or 0.0,
        }
    return changes | {name: f"{count:.17g}" for name, count in counts.items() if count}


def turn_of(
    message: POWorkerInput, prompt: str, output: POWorkerOutput, *, thread: str, now: datetime
) -> POTurn:
    """What is kept of a turn."""
    return POTurn(
        request_id=message.request_id,
        user_id=message.user_id,
        session_id=output.session_id or "",
        thread=thread,
        at=now,
        prompt=_cut(prompt),
        text=_cut(output.text),
        status=output.status,
        usage=output.usage,
    )


def read_turns(texts: Iterable[str]) -> list[POTurn]:
    """The turns of a list; what cannot be read is left out."""
    turns = []
    for text in texts:
        with suppress(ValidationError):
            turns.append(POTurn.model_validate_json(text))
    return turns


def continues(rotation: str | None, session_id: str) -> str | None:
    """The session that this one continues, because that one grew too large; None if none."""
    if not rotation:
        return None
    try:
        last = PORotation.model_validate_json(rotation)
    except ValidationError:
        return None
    return last.from_session if (last.reason, last.to) == ("Tokens", session_id) else None


def _cut(text: str) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= KEPT_CHARACTERS:
        return text
    head = KEPT_CHARACTERS * 3 // 4
    return f"{text[:head]} […] {text[head - KEPT_CHARACTERS :]}"
