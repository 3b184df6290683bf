"""ModelServer: in what a server differs from OpenAI's own."""

import hashlib
import re
from typing import Literal

from pydantic import BaseModel, Field

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")


class ModelServer(BaseModel):
    """A server that speaks OpenAI's chat completions.

    Attributes:
        name: The provider in model strings: "groq" of "groq:llama-3.3-70b-versatile".
        base_url: Where it answers, unless `base_url=` or the variable `NAME_BASE_URL` says so.
        key_variable: The environment variable that holds its key.
        needs_key: False for a server of one's own, which is asked without a key when there is none.
        tokens_field: What it calls the limit of output tokens.
        seed_field: What it calls the seed.
        json_schema: Whether all its models can be bound to a JSON schema. Else an answer
            of an `output_type` is asked for as a tool call.
        thoughts: Fields in which it takes back what its models thought during the turn; it may
            refuse a request with others.
        stream_usage: Whether a stream has to be asked to tell its tokens.
        short_call_ids: Whether ids of tool calls have to be nine letters and digits.
        dimensions_field: What it calls the length of an embedding model's vectors.
    """

    model_config = {"frozen": True, "extra": "forbid"}

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    base_url: str | None
    key_variable: str
    needs_key: bool = True
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed_field: str = "seed"
    json_schema: bool = True
    thoughts: tuple[str, ...] = ()
    stream_usage: bool = True
    short_call_ids: bool = False
    dimensions_field: str = "dimensions"

    @property
    def url_variable(self) -> str:
        """The environment variable that may hold its address."""
        return f"{self.name.upper().replace('-', '_')}_BASE_URL"


def call_id(server: ModelServer, identity: str) -> str:
    """Return a tool call's id as a server takes it: another vendor's may be of any form."""
    if not server.short_call_ids or _SHORT_ID.fullmatch(identity):
        return identity
    return hashlib.sha256(identity.encode()).hexdigest()[:9]


# what compatible servers call thoughts: DeepSeek and vLLM, and newer vLLM and OpenRouter
THOUGHTS = ("reasoning_content", "reasoning")

OPENAI = ModelServer(
    name="openai",
    base_url=None,
    key_variable="OPENAI_API_KEY",
    tokens_field="max_completion_tokens",
)
# OpenAI's newer models refuse max_tokens, compatible servers know nothing else
COMPATIBLE = OPENAI.model_copy(update={"tokens_field": "max_tokens", "thoughts": THOUGHTS})
