"""The last station of every output: no secret in it, no larger than an output may be, valid JSON.

Pure. exchange.py and po_turn.py publish nothing that did not come through here.
"""

from typing import Any, Final, TypeVar

from orbiter_contracts import WorkerOutput, clamped_data, fitted
from orbiter_contracts.bounds import MAX_LINE_CHARACTERS, MAX_OUTPUT_BYTES, shortened
from orbiter_contracts.messages import Message
from worker_wrapper.redact import Redactor

Output = TypeVar("Output", bound=WorkerOutput)
_NOTICE_BYTES: Final = 1024
"""Room for the warning that says what was cut."""
_WORDS: Final = ("text", "error", "summary", "question")
_LINES: Final = ("commit_sha", "pr_url")


def publishable(output: Output, redactor: Redactor) -> Output:
    """The output as it may be published.

    Only what an agent or a program said is searched for secrets: a secret that happens to be the
    word `success` must not make the status unreadable. What is longer than MAX_OUTPUT_BYTES is cut
    where its texts are longest, and a warning says what was.
    """
    told = _scrubbed(output.model_dump(), redactor)
    whole = type(output).model_validate(told)
    short = fitted(whole, MAX_OUTPUT_BYTES - _NOTICE_BYTES)
    cut = _cut(whole, short) + _lost_data(output, whole)
    if not cut:
        return whole
    notice = f"too long to be published whole, so this was cut: {', '.join(cut)}"
    return type(output).model_validate(short.model_dump() | {"warnings": [notice, *short.warnings]})


def _scrubbed(told: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """The fields of a message with their words, and those of the messages in it, scrubbed."""
    told = dict(told)
    for name in _WORDS:
        if told.get(name) is not None:
            told[name] = redactor.scrub(told[name])
    for name in _LINES:
        if told.get(name) is not None:
            told[name] = shortened(redactor.scrub(told[name]), MAX_LINE_CHARACTERS)
    if told.get("warnings"):
        told["warnings"] = redactor.scrub(told["warnings"])
    if told.get("data"):
        told["data"], _ = clamped_data(redactor.scrub(told["data"]))
    for name in ("verdict", "workspace"):
        if told.get(name) is not None:
            told[name] = _scrubbed(told[name], redactor)
    return told


def _lost_data(before: Message, after: Message) -> list[str]:
    """Data that has grown too large because its secrets were taken out."""
    verdict, kept = getattr(before, "verdict", None), getattr(after, "verdict", None)
    return ["verdict.data"] if verdict and verdict.data and not (kept and kept.data) else []


def _cut(whole: Message, short: Message, prefix: str = "") -> list[str]:
    """Which texts of a message are shorter now, and what they had."""
    cut = []
    for name in type(whole).model_fields:
        before, after = getattr(whole, name), getattr(short, name)
        if isinstance(before, str) and before != after:
            cut.append(f"{prefix}{name} ({len(before)} characters)")
        elif isinstance(before, Message) and isinstance(after, Message):
            cut += _cut(before, after, f"{prefix}{name}.")
    return cut
