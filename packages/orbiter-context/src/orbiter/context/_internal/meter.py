"""Corrects the estimate of what is sent by what the vendor says that it was.

What the first call took more than the estimate is the tools' schemas, as far as they can be that
large. From then on the vendor's count tells how many of its tokens one of the estimate's is.
"""

from typing import NamedTuple

MAX_FIXED = 20_000
# Counts outside of these are no tokenizer's: a stand-in's, or those of a gateway that hides some.
LEAST_RATIO = 0.5
MOST_RATIO = 4.0


class Room(NamedTuple):
    """What a conversation may take, in estimated tokens.

    Attributes:
        limit: From more than so much on it is compacted.
        goal: How much is left then.
    """

    limit: int
    goal: int


class Meter:
    """How an agent's estimates compare to its vendor's counts.

    Attributes:
        estimate: Of what is being sent; 0 when nothing is.
    """

    __slots__ = ("_fixed", "_heard", "_ratio", "estimate")

    def __init__(self) -> None:
        self.estimate = 0
        self._heard = False
        self._fixed = 0
        self._ratio = 1.0

    def heard(self, counted: int) -> None:
        """Note how many tokens the vendor counted for what was sent."""
        estimate, self.estimate = self.estimate, 0
        if not estimate:
            return
        if counted < estimate * LEAST_RATIO:
            self._heard, self._fixed, self._ratio = False, 0, 1.0
            return
        if not self._heard:
            self._heard = True
            self._fixed = min(max(0, counted - estimate), MAX_FIXED)
        ratio = (counted - self._fixed) / estimate
        self._ratio = min(max(ratio, LEAST_RATIO), MOST_RATIO)

    def tokens(self, estimate: int) -> int:
        """Return what the vendor will probably count for an estimate."""
        return self._fixed + round(self._ratio * estimate)

    def limit(self, budget: int, system: int) -> int:
        """Return from more than how many estimated tokens on a conversation is compacted.

        Args:
            budget: For all that is sent, in the vendor's tokens.
            system: The estimate of the system prompt. However large it is, a quarter of the
                budget is for the conversation: no compaction makes a prompt smaller.
        """
        least = round(budget / 4 / self._ratio)
        return max(least, int((budget - self._fixed) / self._ratio) - system)

    def room(self, budget: int, system: int) -> Room:
        """Return what is left of a budget for the conversation; see `limit`."""
        limit = self.limit(budget, system)
        goal = int((budget / 2 - self._fixed) / self._ratio) - system
        return Room(limit, max(goal, limit // 4))
