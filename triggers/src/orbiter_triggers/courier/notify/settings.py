"""Settings of notifications; the courier's have these too."""

from ipaddress import ip_network
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from orbiter_triggers.courier.addresses import Network
from orbiter_triggers.settings import ReplicaSettings


class NotifySettings(ReplicaSettings):
    """What the program is told of them by its environment."""

    notify: bool = Field(
        False, description="Whether receivers of spec.notify are told; reads their Secrets"
    )
    notify_allow_http: bool = Field(
        False, description="Whether a receiver's address may be http://, where others read along"
    )
    notify_private_networks: Annotated[tuple[Network, ...], NoDecode] = Field(
        (), description="Networks that receivers may be in though they are not public, with commas"
    )
    notify_source: str = Field(
        "",
        max_length=256,
        description="What tells this cluster from others in an event's source: https://prod.example",
    )

    @field_validator("notify_private_networks", mode="before")
    @classmethod
    def _receivers_networks(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        return value
