"""Every setting of the receiver. Each field is `ORBITER_<NAME>`, as those of the controller are."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from orbiter_triggers.receiver.connections import BODY_SECONDS, HEAD_SECONDS


class ReceiverSettings(BaseSettings):
    """What the program is told by its environment."""

    model_config = SettingsConfigDict(env_prefix="ORBITER_", frozen=True, extra="ignore")

    redis_url: str = Field(min_length=1, description="Redis, with a user that may add events")
    webhook_master_key: str = Field(
        min_length=16, description="What the secrets of webhooks follow from"
    )
    webhook_generation: int = Field(
        1, ge=1, description="Of these secrets; those of the one before open, too"
    )
    webhook_port: int = Field(8088, ge=0, le=65535, description="Port of the hooks; 0 picks one")
    max_connections: int = Field(128, ge=1, le=4096, description="Connections at a time")
    head_seconds: float = Field(HEAD_SECONDS, gt=0, description="For the head of a request")
    body_seconds: float = Field(BODY_SECONDS, gt=0, description="For its body")
    metrics_port: int = Field(9090, ge=0, le=65535, description="Port of /metrics; 0 picks one")
    health_port: int = Field(
        8080, ge=0, le=65535, description="Port of /healthz and /readyz; 0 picks one"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )
