"""What a context notes about one run of one agent while it lasts."""

from collections.abc import Awaitable, Callable, Iterable

from orbiter.additions import marked
from orbiter.context._internal.compactor import Shown
from orbiter.context._internal.meter import Meter, Room
from orbiter.context._internal.seams import Summarizing
from orbiter.context.tokens import MESSAGE_TOKENS, TokenCounter
from orbiter.types import Message


class RunRecord:
    """A run of an agent.

    Attributes:
        agent_name: The agent.
        input: What it was started with.
        history: The conversation before.
        active: Whether the run has begun and not ended.
        provider: Writes summaries, if anything does.
        budget: How many tokens prompt and conversation may take.
        shown: What the model sees of the conversation.
        meter: How estimates compare to the vendor's counts.
        prompt: What the run loop itself says beside the conversation.
        system_tokens: The estimate of what `limit` was last asked to leave room for.
    """

    __slots__ = (
        "_beside", "_found", "active", "agent_name", "budget", "history", "input", "meter",
        "prompt", "provider", "shown", "system_tokens",
    )  # fmt: skip

    def __init__(
        self,
        agent_name: str = "",
        input: str = "",
        history: Iterable[Message] = (),
        *,
        provider: Summarizing | None = None,
        budget: int = 0,
        before: "RunRecord | None" = None,
    ) -> None:
        self.agent_name = agent_name
        self.input = input
        self.history = list(history)
        self.active = bool(agent_name)
        self.provider = provider
        self.budget = budget
        self.shown: Shown = before.shown if before is not None else Shown()
        self.meter: Meter = before.meter if before is not None else Meter()
        self.prompt = ""
        self._beside, self.system_tokens = ("", ""), 0
        self._found: dict[str, str] = {}

    def limit(self, system_prompt: str, added: str, count: TokenCounter) -> int:
        """Return how large the conversation may be beside a system prompt and what is added."""
        if self._beside != (system_prompt, added):
            self._beside = system_prompt, added
            prompt = MESSAGE_TOKENS + count(system_prompt) if system_prompt else 0
            self.system_tokens = prompt + (count(f"\n\n{marked(added)}") if added else 0)
        return self.meter.limit(self.budget, self.system_tokens)

    def room(self) -> Room:
        """Return how large it may be, as `limit` said, and how large it is to become."""
        return self.meter.room(self.budget, self.system_tokens)

    def end(self, messages: list[Message]) -> list[Message]:
        """Note that it is over; return the whole conversation."""
        self.active = False
        return [*self.history, *messages]

    async def once(self, key: str, find: Callable[[], Awaitable[str]]) -> str:
        """Return what `find` gives, and while the run lasts ask it only once for a key."""
        found = self._found.get(key)
        if found is None or not self.active:
            found = self._found[key] = await find()
        return found
