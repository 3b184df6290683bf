"""What all messages have in common."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Base of every message: frozen, tolerant of fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")
