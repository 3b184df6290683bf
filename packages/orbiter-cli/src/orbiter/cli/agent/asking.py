"""A run that waits for a person: its requests one after the other, and the answers so far."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orbiter.approval import InputAnswer, InputRequest


class Asking:
    """What a paused run wants to know; false when nothing waits.

    Args:
        paused: The run, None when none waits.
        answers: What the person has said so far.

    Raises:
        OrbiterError: It is no paused run.
    """

    def __init__(self, paused: str | None, answers: "Sequence[InputAnswer]" = ()) -> None:
        self.paused = paused
        self.answers = list(answers)
        self._requests: tuple[InputRequest, ...] = ()
        if paused is not None:
            from orbiter.approval import requests_of

            self._requests = requests_of(paused)

    def __bool__(self) -> bool:
        return self.paused is not None

    @property
    def open(self) -> "InputRequest | None":
        """The request that is asked now; None when all have their answers."""
        left = self._requests[len(self.answers) :]
        return left[0] if left else None

    def lines(self) -> list[str]:
        """What to show the person who is asked now."""
        if self.open is None:
            return []
        from orbiter.approval import describe

        return describe(self.open).splitlines()

    def take(self, line: str) -> bool:
        """Take what the person typed; say whether everything is answered.

        Raises:
            OrbiterError: It is no answer to what is asked now.
        """
        from orbiter.approval import read_reply

        if self.open is not None:
            self.answers.append(read_reply(self.open, line))
        return self.open is None

    def resumption(self) -> dict[str, Any]:
        """What `run` is given to go on."""
        return {"resume": self.paused, "answers": list(self.answers)}

    def again(self) -> None:
        """Ask anew, when the run could not go on with the answers."""
        if self.open is None:
            self.answers.clear()
