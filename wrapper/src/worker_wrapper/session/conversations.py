"""What the CLI agent knows of each session: whether it began, the agent's own id for it, its cost.

Kept in a file under HOME, where the CLIs keep their conversations too: the two live and die
together, so that after a restart the wrapper (po.py) resumes exactly what is still there. The agent
can write there, so that what is read is checked and bounded, and nothing is opened that could keep
us waiting, as a FIFO in the file's place would.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from orbiter_contracts import Usage
from worker_wrapper.agents.base import Session
from worker_wrapper.agents.decoding import USABLE_ID

FILE: Final = Path(".worker-wrapper", "conversations.json")
_KEPT: Final = 50
_BYTES: Final = 1024 * 1024
"""More than fifty sessions take, by far."""
_OPEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN


class _Known(BaseModel):
    """One session as its last turn left it."""

    model_config = ConfigDict(frozen=True)
    agent: str
    id: str
    resumed: bool
    totals: Usage | None = None
    agent_session_id: Annotated[str, Field(pattern=USABLE_ID)] | None = None
    context_tokens: int | None = None


class _Stored(BaseModel):
    """The file: the newest session last. `unfinished`: see `Conversations`."""

    model_config = ConfigDict(frozen=True)
    sessions: list[_Known] = []
    unfinished: str | None = None


class Conversations:
    """The sessions of one agent. A file that cannot be used costs only the memory of a restart."""

    LATEST: Final = 5
    """Of how many sessions a snapshot keeps the conversation."""

    def __init__(self, home: Path, agent: str) -> None:
        self._path = home / FILE
        self._agent = agent
        self._stored = _Stored()
        with suppress(OSError, ValueError):
            self._stored = _Stored.model_validate_json(_read(self._path))

    def session(self, session_id: str) -> Session:
        """The session as the next turn needs it; a new one when this agent never had it."""
        for known in self._stored.sessions:
            if (known.agent, known.id) == (self._agent, session_id):
                return _session(known)
        return Session(session_id)

    def latest(self) -> list[Session]:
        """The sessions that were used last."""
        own = [known for known in self._stored.sessions if known.agent == self._agent]
        return [_session(known) for known in own[-self.LATEST :]]

    @property
    def unfinished(self) -> str | None:
        """The agent's id of the conversation that the last turn began, if it began one.

        Whether its answer was published is not known here: Redis has it in its snapshot then.
        """
        return self._stored.unfinished

    def begin(self, conversation_id: str | None) -> None:
        """Note which conversation the turn begins that comes now, or that it begins none."""
        self._store(self._stored.model_copy(update={"unfinished": conversation_id}))

    def keep(self, session: Session) -> None:
        """Remember a session as its last turn left it."""
        newest = _Known(
            agent=self._agent,
            id=session.id,
            resumed=session.resumed,
            totals=session.totals,
            agent_session_id=session.agent_session_id,
            context_tokens=session.context_tokens,
        )
        others = [
            known
            for known in self._stored.sessions
            if (known.agent, known.id) != (newest.agent, newest.id)
        ]
        self._store(_Stored(sessions=[*others, newest][-_KEPT:], unfinished=self.unfinished))

    def _store(self, stored: _Stored) -> None:
        self._stored = stored
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".new")
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, _CREATE), "w") as file:
                file.write(stored.model_dump_json())
            draft.replace(self._path)


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | _OPEN), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is no file")
        data = file.read(_BYTES + 1)
    if len(data) > _BYTES:
        raise ValueError(f"{path} is larger than {_BYTES} bytes")
    return data


def _session(known: _Known) -> Session:
    return Session(
        known.id, known.resumed, known.totals, known.agent_session_id, known.context_tokens
    )
