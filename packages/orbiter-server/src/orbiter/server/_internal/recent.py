"""Answers that hold for some seconds: bounded, and asked for once however many wait for one."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The latest answers by their question; those that were not asked for longest go first.

    A yes and a no are kept apart, `most` of each: whoever is refused may ask as much as they like,
    and takes the place of nobody who is not.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._yes: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._no: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._asked: dict[K, asyncio.Task[tuple[V, float]]] = {}

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._yes) + len(self._no)

    def had(self, key: K) -> bool:
        """Say whether the last answer was a yes, however long ago."""
        return key in self._yes

    async def get(
        self, key: K, ask: Callable[[], Awaitable[V]], seconds: Callable[[V], float]
    ) -> tuple[V, float]:
        """Return an answer and until when it holds, by the clock.

        Args:
            key: The question.
            ask: Finds out. What it raises is everybody's who waits, and is not kept.
            seconds: How long an answer holds, from the moment when it was asked for.
        """
        for answers in (self._yes, self._no):
            known = answers.get(key)
            if known is not None and self._clock() < known[1]:
                answers.move_to_end(key)
                return known
        task = self._asked.get(key)
        if task is None:
            # from here on: what changes while the answer is on its way is not in it
            task = asyncio.create_task(self._ask(key, ask, seconds, self._clock()))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._over(key, done))
        # whoever waits may leave; the others wait on
        return await asyncio.shield(task)

    async def _ask(
        self, key: K, ask: Callable[[], Awaitable[V]], seconds: Callable[[V], float], began: float
    ) -> tuple[V, float]:
        answer = await ask()
        found = answer, began + seconds(answer)
        kept, other = (self._yes, self._no) if answer else (self._no, self._yes)
        other.pop(key, None)
        kept[key] = found
        kept.move_to_end(key)
        while len(kept) > self._most:
            kept.popitem(last=False)
        return found

    def _over(self, key: K, done: "asyncio.Task[tuple[V, float]]") -> None:
        del self._asked[key]
        if not done.cancelled():
            done.exception()  # seen, also when nobody waits any more
