"""What both vendors' requests make of settings, and the error for what one of them cannot do."""

from collections.abc import Callable
from typing import Any

from orbiter.config import ModelSettings
from orbiter.models.types import ModelError

Refuse = Callable[[str], ModelError]


def sampling(
    settings: ModelSettings | None, temperature: float | None, max_tokens: int | None
) -> tuple[float | None, int | None]:
    """Return temperature and tokens of a call: what was given by itself, else by the settings."""
    if settings is None:
        return temperature, max_tokens
    given = settings.given
    return (
        given.get("temperature") if temperature is None else temperature,
        given.get("max_tokens") if max_tokens is None else max_tokens,
    )


def add_options(request: dict[str, Any], settings: ModelSettings) -> None:
    """Put into a request what the SDKs take besides a body; the user's body outranks ours.

    Its `tools` come behind those of the agent, which are not its to take away.
    """
    for name in ("timeout", "extra_headers"):
        value = getattr(settings, name)
        if value is not None:
            request[name] = value
    if settings.extra_body:
        body = {**request.get("extra_body", {}), **settings.extra_body}
        request["extra_body"] = with_tools(request.get("tools"), body)


def with_tools(tools: list[Any] | None, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body of the user's own, whose tools come behind others.

    Args:
        tools: Those of the agent as the vendor has them, if there are any.
        body: What would stand in their place.
    """
    if not tools or not isinstance(body.get("tools"), list):
        return body
    return {**body, "tools": [*tools, *body["tools"]]}


def only_cached(settings: ModelSettings, refuse: Refuse) -> None:
    """Refuse to do without a cache, for vendors that cache by themselves.

    Raises:
        ModelError: That was asked.
    """
    if settings.prompt_caching is False:
        raise refuse(
            "the setting 'prompt_caching' is False: the API caches by itself; leave it out"
        )


def refusal(settings: ModelSettings, cannot: dict[str, str], refuse: Refuse) -> None:
    """Refuse what a vendor cannot do.

    Args:
        settings: What was given.
        cannot: By setting, why not and what to do instead.
        refuse: Builds the error that names the model.

    Raises:
        ModelError: One of them was given.
    """
    for name in sorted(cannot.keys() & settings.given.keys()):
        raise refuse(f"the setting '{name}' is not possible: {cannot[name]}")
