"""The agent card: what others are told of an agent before they talk to it."""

from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_CURRENT, TransportProtocol

REST_PREFIX = "/rest"


def make_card(
    name: str, description: str, url: str, version: str, *, secured: bool, push: bool
) -> AgentCard:
    """Return the card of an agent that is served at `url` by JSON-RPC, and by REST below it.

    Instructions and tools are not told: they are the agent's own matter.
    """
    base = url.rstrip("/")
    skill = AgentSkill(id=name, name=name, description=description, tags=["agent"])
    card = AgentCard(
        name=name,
        description=description,
        version=version,
        supported_interfaces=[
            _interface(f"{base}/", TransportProtocol.JSONRPC),
            _interface(f"{base}{REST_PREFIX}", TransportProtocol.HTTP_JSON),
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=push),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )
    if secured:
        bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
        card.security_schemes["token"].CopyFrom(bearer)
        card.security_requirements.append(SecurityRequirement(schemes={"token": StringList()}))
    return card


def _interface(url: str, binding: TransportProtocol) -> AgentInterface:
    return AgentInterface(
        url=url, protocol_binding=binding.value, protocol_version=PROTOCOL_VERSION_CURRENT
    )
