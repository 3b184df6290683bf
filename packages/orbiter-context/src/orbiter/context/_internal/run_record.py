"""What a context notes about one run of one agent while it lasts."""

from collections.abc import Awaitable, Callable, Iterable

from orbiter.context._internal.compactor import Shown
from orbiter.types import Message


class RunRecord:
    """A run of an agent.

    Attributes:
        agent_name: The agent.
        input: What it was started with.
        history: The conversation before.
        active: Whether the run has begun and not ended.
        shown: What the model sees of the conversation, for the result shortener.
    """

    __slots__ = ("_found", "active", "agent_name", "history", "input", "shown")

    def __init__(
        self, agent_name: str = "", input: str = "", history: Iterable[Message] = ()
    ) -> None:
        self.agent_name = agent_name
        self.input = input
        self.history = list(history)
        self.active = bool(agent_name)
        self.shown = Shown()
        self._found: dict[str, str] = {}

    async def once(self, key: str, find: Callable[[], Awaitable[str]]) -> str:
        """Return what `find` gives, and while the run lasts ask it only once for a key."""
        found = self._found.get(key)
        if found is None or not self.active:
            found = self._found[key] = await find()
        return found
