"""The seams of `run(journal=..., session=...)`: what keeps a run, and what keeps a conversation.

Stores of this package are in `orbiter.run_store` and `orbiter.session`; any object with these
methods will do.
"""

from collections.abc import Sequence
from typing import Protocol

from orbiter.types import Message


class RunLog(Protocol):
    """The entries of one run, for the one who has it: nobody else appends to it meanwhile."""

    @property
    def entries(self) -> Sequence[str]:
        """What was kept when the run was opened, oldest first."""
        ...

    async def append(self, entry: str) -> None:
        """Keep an entry. It outlives the process from the moment this returns."""
        ...

    async def close(self) -> None:
        """Let others have the run."""
        ...


class RunStore(Protocol):
    """What `run(journal=...)` takes."""

    async def open(self, run_id: str) -> RunLog:
        """Take a run, which is empty when nobody had it before.

        Raises:
            RunBusyError: Somebody else has it.
            JournalError: It cannot be read.
        """
        ...


class Session(Protocol):
    """What `run(session=...)` takes: one conversation."""

    async def load(self) -> Sequence[Message]:
        """Return what was said so far.

        Raises:
            SessionError: It cannot be read.
        """
        ...

    async def save(self, run_id: str, messages: Sequence[Message]) -> None:
        """Keep what a run added, whole and behind what is there.

        A second time for the same run takes the place of the first.

        Raises:
            SessionError: It cannot be written.
        """
        ...
