"""What the model says on a page: the JSON of `<!-- replies: [...] -->`, as a server answers it.

A string is text, `{"call": "add", "args": {"a": 2}}` a tool call, a list several calls at once,
`{"status": 529}` an HTTP error. Any other object has the fields of an `Answer`, such as `text`,
`thinking` or `cached_tokens`; they may stand beside a call, too.
"""

import os
import sys
from pathlib import Path
from typing import Any

from support.model_wire import Answer, Refusal


def answer_of(number: int | str, reply: Any) -> Answer | Refusal:
    """Return what a server answers; the number makes the ids of calls differ."""
    if isinstance(reply, str):
        return Answer(text=reply)
    if isinstance(reply, list):
        calls = [_call(f"call_{number}_{n}", part) for n, part in enumerate(reply)]
        return Answer(calls=tuple(calls))
    if "status" in reply:
        return Refusal(**reply)
    fields = {key: value for key, value in reply.items() if key not in ("call", "args")}
    calls = [_call(f"call_{number}", reply)] if "call" in reply else []
    return Answer(calls=tuple(calls), **fields)


def _call(identity: str, reply: Any) -> tuple[str, str, dict[str, Any]]:
    return identity, reply["call"], reply.get("args", {})


def surroundings(model: str, directory: Path) -> dict[str, str]:
    """Return the environment of a user's program whose models are one server.

    Args:
        model: The server's address.
        directory: The user's home, and where temporary files are.
    """
    return {
        **os.environ,
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_API_KEY": "sk-test",
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "sk-test",
        "ORBITER_FORBID_MODEL_CALLS": "",
    }
