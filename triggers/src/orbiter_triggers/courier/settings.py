"""Every setting of the courier. Each field is `ORBITER_<NAME>`, as those of the others are."""

import json
from ipaddress import ip_network
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from orbiter_triggers.courier.addresses import Network, may_connect
from orbiter_triggers.courier.notify.settings import NotifySettings

_LOOPBACK: Final = "127.0.0.1"


class CourierSettings(NotifySettings):
    """What the program is told by its environment."""

    lease_name: str = Field("orbiter-courier", description="Lease that makes one replica active")
    redis_url: str = Field(min_length=1, description="Redis, with a user that may add events")
    github_private_networks: Annotated[tuple[Network, ...], NoDecode] = Field(
        (), description="Networks that GitHub may be in though they are not public, with commas"
    )
    github_url: str = Field(
        "https://api.github.com",
        description="GitHub's API; of GitHub Enterprise Server https://HOST/api/v3",
    )
    github_ca: str = Field(
        "", description="File with the CAs of GitHub Enterprise Server; empty: those of the system"
    )
    github_write_seconds: float = Field(
        1.0, ge=0, le=60, description="Seconds between two writes; GitHub itself asks for one"
    )
    github_credentials: str = Field(
        "/etc/orbiter/github", description="Directory with token, or app-id and what belongs to it"
    )
    github_repositories: Annotated[dict[str, tuple[str, ...]], NoDecode] = Field(
        default_factory=dict,
        description='Which namespace has which repositories, as JSON: {"team-a": ["octo-org/*"]}',
    )
    poll_seconds: int = Field(600, ge=10, description="Seconds between two polls of a repository")
    answers: bool = Field(
        True, description="Whether comments answer questions; needs the right to patch AgentTasks"
    )
    task_url: str = Field(
        "", description="Link to a task, with {namespace} and {name} in it; empty: none"
    )

    @field_validator("github_private_networks", mode="before")
    @classmethod
    def _networks(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(ip_network(part.strip()) for part in value.split(",") if part.strip())
        return value

    @field_validator("github_repositories", mode="before")
    @classmethod
    def _repositories(cls, value: object) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "{}")
        except ValueError:
            raise ValueError("is no JSON") from None

    @field_validator("github_url")
    @classmethod
    def _address(cls, value: str, info: ValidationInfo) -> str:
        url, private = urlsplit(value), info.data.get("github_private_networks", ())
        host = url.hostname or ""
        if url.scheme != "https" and not (url.scheme == "http" and host == _LOOPBACK):
            raise ValueError("it has to begin with https://")
        if not host or "@" in url.netloc or url.query or url.fragment:
            raise ValueError("it has to be a host and a path, and nothing else")
        # A name is looked at when it is resolved, an address never would be.
        literal = ":" in host or host.replace(".", "").isdigit()
        if literal and not may_connect(host, private):
            raise ValueError(
                "it is no public address; name its network in ORBITER_GITHUB_PRIVATE_NETWORKS "
                "if it is meant"
            )
        return value.rstrip("/")

    def has_repository(self, namespace: str, repository: str) -> bool:
        """Whether a namespace may see and write to a repository through the courier."""
        wanted = repository.lower()
        given = self.github_repositories
        named = (*given.get(namespace, ()), *given.get("*", ()))
        owner = wanted.partition("/")[0]
        return any(one.lower() in (wanted, f"{owner}/*", "*") for one in named)
