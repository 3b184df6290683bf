"""The model of a run as its context has it, which asks it for summaries."""

from typing import Any

from orbiter._internal.model_call import completed
from orbiter._internal.state import RunState
from orbiter.config import ModelSettings
from orbiter.protocols import ModelReply, Provider
from orbiter.types import Message

# How a model is reached; how it is to answer the run's own questions is of no use for another one.
_WAY = ("timeout", "extra_headers", "http_client")


class Aside:
    """A provider whose calls count in a run and reach the model the way the run's do.

    Everything but `complete` is the provider's own.
    """

    def __init__(self, provider: Provider, settings: ModelSettings | None, state: RunState) -> None:
        self._provider = provider
        self._state = state
        given = {} if settings is None else settings.given
        way = {name: given[name] for name in _WAY if name in given}
        takes = way and getattr(provider, "settings", False)
        self._options = {"settings": ModelSettings(**way)} if takes else {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def complete(self, messages: list[Message], **options: Any) -> ModelReply:
        """Answer in one piece; see Provider."""
        given = {**self._options, **options}
        reply = await completed(self._provider, messages, given, self._state)
        self._state.count(reply.usage)
        return reply
