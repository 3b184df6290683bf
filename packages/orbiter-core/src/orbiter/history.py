"""Conversations as JSON: one format with a version, which any provider can go on with."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from orbiter.types import Message, OrbiterError

VERSION = 1


class _History(BaseModel):
    model_config = {"extra": "forbid"}

    version: Literal[1]
    messages: list[Annotated[Message, Field(discriminator="role")]]


def to_json(messages: Sequence[Message]) -> str:
    """Write a conversation, such as `result.messages`.

    Args:
        messages: What was said. Thoughts keep what their vendor wants back, files their bytes.
    """
    history = _History.model_construct(version=1, messages=list(messages))
    return history.model_dump_json()


def from_json(text: str | bytes) -> list[Message]:
    """Read what `to_json` has written.

    Raises:
        OrbiterError: It is something else, or of a newer version.
    """
    try:
        return list(_History.model_validate_json(text).messages)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise OrbiterError(
            f"this is no history of version {VERSION}: {where}: {first['msg']}; write it with "
            "orbiter.history.to_json"
        ) from error
