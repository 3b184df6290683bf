"""The last station of every output: no secret in it, no larger than an output may be, valid JSON.

Pure. message_handler.py and po_turn.py publish nothing that did not come through here.
"""

from typing import Any, Final, TypeVar

from orbiter_contracts import InputRequest, WorkerOutput, clamped_data, fitted
from orbiter_contracts.bounds import (
    MAX_DATA_BYTES,
    MAX_LINE_CHARACTERS,
    MAX_OUTPUT_BYTES,
    shortened,
)
from orbiter_contracts.messages import Message
from orbiter_contracts.object_store import StoreAddress
from orbiter_contracts.tracing import Step
from worker_wrapper.redact import Redactor

Output = TypeVar("Output", bound=WorkerOutput)
_NOTICE_BYTES: Final = 1024
"""Room for the warning that says what was cut."""
_OURS: Final = frozenset(
    ("status", "reason", "request_id", "task_id", "project_id", "worker_id", "session_id")
)
"""Texts that no agent and no program wrote: a secret that happens to be the word `success` must not
make the status unreadable, nor an id another one."""
_PROSE: Final = frozenset(("text", "error", "summary", "question"))
"""Texts of any length. The others are lines, and taking a secret out can make them longer."""


def publishable(output: Output, redactor: Redactor) -> Output:
    """The output as it may be published.

    Every text is searched for secrets but the few that are ours. What is longer than
    MAX_OUTPUT_BYTES is cut where its texts are longest, and a warning says what was.
    """
    whole = type(output).model_validate(_scrubbed(output, redactor))
    short, cut = fitted(whole, MAX_OUTPUT_BYTES - _NOTICE_BYTES)
    cut += _lost_data(output, whole)
    notices = _lost_request(output, whole)
    if cut:
        notices.append(f"too long to be published whole, so this was cut: {', '.join(cut)}")
    if not notices:
        return whole
    return type(output).model_validate(short.model_dump() | {"warnings": notices + short.warnings})


def _scrubbed(message: Message, redactor: Redactor) -> dict[str, Any]:
    """The fields of a message, and those of the messages in it, without secrets."""
    fields = {}
    for name in type(message).model_fields:
        value = getattr(message, name)
        if isinstance(value, InputRequest):
            value = value if _is_fit(value, redactor) else None
        elif isinstance(value, StoreAddress):
            pass  # From our settings: without a word of it, it would be none.
        elif isinstance(value, Message):
            value = _scrubbed(value, redactor)
        elif name == "steps":
            value = [Step(**dict(one) | {"name": redactor.scrub(one.name)}) for one in value]
        elif name not in _OURS:
            value = redactor.scrub(value)
            if isinstance(value, dict):
                value, _ = clamped_data(value)
            elif isinstance(value, str) and name not in _PROSE:
                value = shortened(value, MAX_LINE_CHARACTERS)
        fields[name] = value
    return fields


def _is_fit(request: InputRequest, redactor: Redactor) -> bool:
    """Whether a request may be shown as it is: with other words its digests were of other calls."""
    shown = request.model_dump(mode="json")
    small = len(request.model_dump_json().encode()) <= MAX_DATA_BYTES
    return small and bool(redactor.scrub(shown) == shown)


def _lost_request(before: Message, after: Message) -> list[str]:
    """That people are asked by the question alone, which was scrubbed and cut like any text."""
    verdict, kept = getattr(before, "verdict", None), getattr(after, "verdict", None)
    if not (verdict and verdict.request) or (kept and kept.request):
        return []
    why = f"it holds a secret, or has more than {MAX_DATA_BYTES} bytes"
    return [f"the verdict's request was left out: {why}"]


def _lost_data(before: Message, after: Message) -> list[str]:
    """Data that has grown too large because its secrets were taken out."""
    verdict, kept = getattr(before, "verdict", None), getattr(after, "verdict", None)
    return ["verdict.data"] if verdict and verdict.data and not (kept and kept.data) else []
