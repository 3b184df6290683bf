"""What a context notes about one run of one agent while it lasts."""

from collections.abc import Awaitable, Callable, Iterable

from orbiter.context._internal.compactor import Shown
from orbiter.context._internal.meter import Meter, Room
from orbiter.context._internal.seams import Summarizing
from orbiter.context.tokens import TokenCounter
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
        prompt: The system prompt as the run loop has it.
        system_tokens: The estimate of the newest prompt that `room` was asked for.
    """

    __slots__ = (
        "_found", "_system", "active", "agent_name", "budget", "history", "input", "meter",
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
        self._system, self.system_tokens = "", 0
        self._found: dict[str, str] = {}

    def room(self, system_prompt: str, count: TokenCounter) -> Room:
        """Return how large the conversation may be beside a system prompt."""
        if self._system != system_prompt:
            self._system, self.system_tokens = system_prompt, count(system_prompt)
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
