"""Checkpoints as JSON, for stores that outlive the process.

State is the user's: a value that JSON would change is refused with its key, rather than come back
as something else.
"""

import json
from typing import Any

from pydantic import TypeAdapter

from orbiter.context._internal.conversation import Ledger
from orbiter.context._internal.saved import CheckpointContent
from orbiter.context.config import ContextConfig
from orbiter.context.errors import CheckpointError
from orbiter.context.token_tracker import StepLog
from orbiter.memory import MemoryRecord
from orbiter.types import Message

_MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
_RECORDS: TypeAdapter[list[MemoryRecord]] = TypeAdapter(list[MemoryRecord])
_PLAIN = (
    "inherited", "origin_user_input", "task_input", "task_output", "workspace_directory",
    "knowledge_task_id",
)  # fmt: skip


def to_json(task_id: str, checkpoint: CheckpointContent) -> str:
    """Return what a checkpoint of a task holds as JSON text.

    Raises:
        CheckpointError: A state value cannot be written, or would come back different.
    """
    for values in (checkpoint.state, checkpoint.inherited or {}):
        for key, value in values.items():
            _check(task_id, key, value)
    content: dict[str, Any] = {name: getattr(checkpoint, name) for name in _PLAIN}
    content |= {
        "config": checkpoint.config.model_dump(),
        "state": checkpoint.state,
        "history": _MESSAGES.dump_python(list(checkpoint.history)),
        "artifacts": dict(checkpoint.artifacts),
        "knowledge": _RECORDS.dump_python(list(checkpoint.knowledge)),
        "steps": {name: log.numbers() for name, log in checkpoint.steps.items()},
        "ledgers": {name: _ledger_data(ledger) for name, ledger in checkpoint.ledgers.items()},
    }
    return json.dumps(content)


def from_json(text: str) -> CheckpointContent:
    """Return what `to_json` made a text of."""
    content = json.loads(text)
    content |= {
        "config": ContextConfig.model_validate(content["config"]),
        "history": tuple(_MESSAGES.validate_python(content["history"])),
        "knowledge": tuple(_RECORDS.validate_python(content["knowledge"])),
        "steps": {name: StepLog(numbers) for name, numbers in content["steps"].items()},
        "ledgers": {name: _ledger_of(data) for name, data in content["ledgers"].items()},
    }
    return CheckpointContent(**content)


def _check(task_id: str, key: str, value: Any) -> None:
    problem = "would come back different from JSON"
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError) as error:
        same, problem = False, f"cannot be written as JSON ({error})"
    if not same:
        raise CheckpointError(
            task_id,
            f"state key '{key}' holds a {type(value).__name__} that {problem}; keep what is to be "
            "saved as texts, numbers, lists and dicts with text keys",
        )


def _ledger_data(ledger: Ledger) -> dict[str, Any]:
    return {
        "number": ledger.number,
        "left": ledger.left,
        "last": ledger.last,
        "summary": ledger.summary,
        "statements": ledger.statements.all(),
        "gist": ledger.gist.all(),
        "pending": _MESSAGES.dump_python(ledger.pending),
        "unread_rounds": ledger.unread_rounds,
    }


def _ledger_of(data: dict[str, Any]) -> Ledger:
    ledger = Ledger(data["number"])
    ledger.left, ledger.last, ledger.summary = data["left"], data["last"], data["summary"]
    for line in data["statements"]:
        ledger.statements.add(line)
    for line in data["gist"]:
        ledger.gist.add(line)
    ledger.pending = _MESSAGES.validate_python(data["pending"])
    ledger.unread_rounds = data["unread_rounds"]
    return ledger
