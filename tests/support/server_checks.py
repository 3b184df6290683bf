"""What servers refuse that speak OpenAI's chat completions, each in its own way.

Groq's, Cerebras' and Mistral's words for it are in reports of those who met them.
"""

import re
from typing import Any


def _fields(body: dict[str, Any]) -> set[str]:
    return {field for message in body["messages"] for field in message}


def no_thoughts(body: dict[str, Any]) -> None:
    """Refuse thoughts, as Groq and Cerebras do."""
    found = _fields(body) & {"reasoning_content", "reasoning"}
    assert not found, f"property {sorted(found)} is unsupported"


def mistral(body: dict[str, Any]) -> None:
    """Refuse what the API does not know, and ids of another form."""
    no_thoughts(body)
    extra = body.keys() & {"seed", "stream_options", "max_completion_tokens"}
    assert not extra, f"extra_forbidden: {sorted(extra)}"
    ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    ids += [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    for identity in ids:
        assert re.fullmatch(r"[a-zA-Z0-9]{9}", identity), (
            f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of 9."
        )


def no_schema(body: dict[str, Any]) -> None:
    """Refuse to be bound to a schema, as DeepSeek does."""
    kind = body.get("response_format", {}).get("type")
    assert kind != "json_schema", "This response_format type is unavailable now"


def old_tokens(body: dict[str, Any]) -> None:
    """Refuse OpenAI's newer word for the limit of tokens."""
    assert "max_completion_tokens" not in body, "unknown field max_completion_tokens"


MINDS = {
    "cerebras": no_thoughts,
    "deepseek": no_schema,
    "groq": no_thoughts,
    "mistral": mistral,
    "vllm": old_tokens,
}
