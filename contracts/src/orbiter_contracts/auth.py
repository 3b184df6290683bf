"""The ways of an agent to its model, `spec.agent.auth`: which there are, and what each sets.

Operator and `orbiter task run` both ask here, and the worker is told by variables alone. Which
agent has which way is one table, as its CLI has it; contracts/tests/test_contract_auth.py holds it
against the adapters, the resource definitions and the page.
"""

import re
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from orbiter_contracts.agent_types import AGENTS, USE_BEDROCK
from orbiter_contracts.bounds import one_line

AuthType = Literal["APIKey", "Bedrock", "Gateway", "OAuthToken"]
TOKEN_DIR: Final = "/run/secrets/aws"  # noqa: S105 - where a token lies
TOKEN_PATH: Final = "token"  # noqa: S105 - its name there
TOKEN_AUDIENCE: Final = "sts.amazonaws.com"  # noqa: S105 - for whom it is
"""A worker's token is for nobody else: the API server takes none of this audience."""
TOKEN_SECONDS: Final = 3600
"""The kubelet makes it anew when four fifths of them are over."""
OAUTH_TOKEN: Final = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105 - the name of a variable
NO_TOKEN: Final = "none"  # noqa: S105 - says that there is none
"""What a CLI that asks for some credential sends to a gateway that wants none."""
_OTHER_IDENTITIES: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"),
)
"""Variables that count more with the SDK of AWS than a role: Bedrock would be asked as others."""
_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}")
_REGION: Final = re.compile(r"[a-z]{2,8}(-[a-z0-9]{1,16}){1,4}")
_URL: Final = re.compile(r"https?://[^\s@/?#]+(/[^\s@?#]*)?")
_SHOWN: Final = 80


class GatewayVariables(NamedTuple):
    """How a CLI is told of a gateway that speaks the API of this vendor.

    Attributes:
        vendor: What the model's name may begin with, where an agent knows several.
        url: The variable of the address.
        token: That of the token.
    """

    vendor: str
    url: str
    token: str


_ANTHROPIC: Final = GatewayVariables("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN")
_ANTHROPIC_KEY: Final = _ANTHROPIC._replace(token="ANTHROPIC_API_KEY")  # noqa: S106 - a name
_OPENAI: Final = GatewayVariables("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY")
_GOOGLE: Final = GatewayVariables("google", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY")
GATEWAYS: Final[dict[str, tuple[GatewayVariables, ...]]] = {
    "claude": (_ANTHROPIC,),
    "codex": (_OPENAI,),
    "factory": (_OPENAI, _ANTHROPIC_KEY),
    "gemini": (_GOOGLE,),
    "opencode": (_ANTHROPIC_KEY, _OPENAI),
    "orbiter": (_ANTHROPIC, _OPENAI),
}
"""Whose API an agent's CLI asks at another address; the first where the model names nobody's."""
_ONLY_CLAUDE: Final = ("Bedrock", "OAuthToken")
_NAMES_ITS_MODEL: Final = ("factory",)
"""Agents whose CLI asks a gateway for no model but one that it is told of."""


def ways(kind: str) -> tuple[AuthType, ...]:
    """The ways that an agent's CLI has, one of `AGENT_TYPES`; of any other none but keys."""
    gateway: tuple[AuthType, ...] = ("Gateway",) if GATEWAYS.get(kind) else ()
    if kind != "claude":
        return ("APIKey", *gateway)
    return ("APIKey", "Bedrock", *gateway, "OAuthToken")


class _Part(BaseModel):
    """Base: frozen, camelCase outside and snake_case inside, unknown fields ignored."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class SecretKey(_Part):
    """A key of a Secret in the task's namespace."""

    name: str
    key: str


class TokenSource(_Part):
    """Where a token is kept."""

    secret_key_ref: SecretKey


def _role(text: str) -> str:
    if not _ROLE.fullmatch(text):
        raise ValueError(f"{one_line(text, _SHOWN)!r} {NO_ROLE}")
    return text


def _region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise ValueError(f"{one_line(text, _SHOWN)!r} is no region; write one like eu-central-1")
    return text


def _url(text: str) -> str:
    # Not repeated: somebody may have written a password into it.
    if not _URL.fullmatch(text):
        raise ValueError(NO_URL)
    return text


NO_ROLE: Final = "is no role; write its ARN, like arn:aws:iam::123456789012:role/agents"
NO_URL: Final = (
    "write an http:// or https:// URL of host and path, without user, password, ? and #; a token "
    "belongs into a Secret that gateway.tokenFrom names"
)


class Bedrock(_Part):
    """Amazon Bedrock, in the name of a role that the worker's service account may have."""

    role_arn: Annotated[str, AfterValidator(_role)] = Field(alias="roleARN")
    region: Annotated[str, AfterValidator(_region)]


class Gateway(_Part):
    """A server of one's own that speaks the API of a vendor."""

    base_url: Annotated[str, AfterValidator(_url)] = Field(alias="baseURL", max_length=2048)
    token_from: TokenSource | None = None


class OAuthToken(_Part):
    """The token of a subscription."""

    token_from: TokenSource


class Auth(_Part):
    """`spec.agent.auth`: the way, and what there is to say of it."""

    type: AuthType = "APIKey"
    bedrock: Bedrock | None = None
    gateway: Gateway | None = None
    oauth_token: OAuthToken | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        parts = {
            "Bedrock": ("bedrock", self.bedrock),
            "Gateway": ("gateway", self.gateway),
            "OAuthToken": ("oauthToken", self.oauth_token),
        }
        for way, (field, part) in parts.items():
            if way == self.type and part is None:
                raise ValueError(f"type {way} needs auth.{field}; write it")
            if way != self.type and part is not None:
                raise ValueError(f"auth.{field} belongs to type {way}; leave it out, or write that")
        return self

    @property
    def secret(self) -> SecretKey | None:
        """Where its token is kept, if it has one of a Secret."""
        part = self.oauth_token or self.gateway
        return part.token_from.secret_key_ref if part and part.token_from else None

    def variables(self, kind: str, model: str | None) -> dict[str, str | SecretKey]:
        """The variables by which the CLI is told, each a value or where it is kept.

        Args:
            kind: The agent's type, which has this way.
            model: The model's name, which says whose API a gateway speaks.
        """
        if self.bedrock:
            return {
                USE_BEDROCK: "1",
                "AWS_REGION": self.bedrock.region,
                "AWS_ROLE_ARN": self.bedrock.role_arn,
                "AWS_WEB_IDENTITY_TOKEN_FILE": f"{TOKEN_DIR}/{TOKEN_PATH}",
            }
        if self.gateway:
            told = _gateway(kind, model)
            return {told.url: self.gateway.base_url, told.token: self.secret or NO_TOKEN}
        return {OAUTH_TOKEN: self.secret} if self.secret else {}

    def handed_on(self, kind: str) -> tuple[str, ...]:
        """Those of its variables that a worker hands to its agent only when it is told to."""
        given = AGENTS[kind].variables if kind in AGENTS else ()
        return tuple(name for name in self.variables(kind, None) if name not in given)

    def reserved(self, kind: str) -> frozenset[str]:
        """Variables that nobody else may set, because the model would be asked another way."""
        if self.type == "APIKey":
            return frozenset()
        others = _OTHER_IDENTITIES if self.bedrock else ()
        agent = AGENTS.get(kind)
        keys = agent.variables if agent else ()
        return frozenset((*self.variables(kind, None), *others, *keys))

    def problem(self, kind: str, keys: str | None, model: str | None) -> str | None:
        """Why an agent cannot go this way: field, value and next step; None when it can.

        Args:
            kind: The agent's type.
            model: The model's name, if the spec has one.
            keys: Name of the Secret with API keys, if the spec has one.
        """
        field, known = "spec.agent.auth.type", ways(kind)
        if self.type not in known:
            others = "claude" if self.type in _ONLY_CLAUDE else _listed(GATEWAYS, "or")
            return (
                f"{field} is {self.type!r}, which {one_line(kind, _SHOWN)} does not have; write "
                f"{' or '.join(known)}, or have an agent.type that has it: {others}"
            )
        if keys is not None and self.type != "APIKey":
            return (
                f"spec.agent.credentialsSecretRef is {keys!r}, and {field} {self.type!r}: keys are "
                "no part of that way; leave one of the two out, here and in the profiles"
            )
        if self.gateway and kind in _NAMES_ITS_MODEL and not model:
            return (
                f"spec.agent.model is missing: {kind} has no model of its own at a gateway; write "
                "the name that the gateway has for one"
            )
        return None


def _gateway(kind: str, model: str | None) -> GatewayVariables:
    known = GATEWAYS[kind]
    said = re.split("[:/]", model or "", maxsplit=1)[0]
    return next((each for each in known if each.vendor == said), known[0])


def _listed(table: dict[str, tuple[GatewayVariables, ...]], last: str) -> str:
    *first, end = [kind for kind, known in table.items() if known]
    return f"{', '.join(first)} {last} {end}"
