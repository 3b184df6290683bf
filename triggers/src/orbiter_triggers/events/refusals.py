"""Why a request is refused: one word for programs and metrics, one sentence for people."""

from typing import Final, Literal, get_args

Reason = Literal["forged", "replayed", "oversized", "slow", "malformed"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)


class RefusedRequestError(ValueError):
    """A request is none that an event comes of.

    Attributes:
        reason: Of which kind.
    """

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
