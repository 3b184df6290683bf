"""What the CLI agent knows of each session: whether it began, the agent's own id for it, its cost.

Kept in a file under HOME, where the CLIs keep their conversations too: the two live and die
together, so that after a restart the wrapper resumes exactly what is still there.
"""

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from orbiter_contracts import Usage
from worker_wrapper.agents.base import Session

_KEPT: Final = 50
FILE: Final = Path(".worker-wrapper", "conversations.json")


class Conversations:
    """The sessions of one agent, the newest last. A file that cannot be used costs memory only."""

    def __init__(self, home: Path, agent: str) -> None:
        self._path = home / FILE
        self._agent = agent
        self._known: dict[str, dict[str, Any]] = {}
        with contextlib.suppress(OSError, ValueError):
            stored = json.loads(self._path.read_text())
            self._known = {key: dict(value) for key, value in dict(stored).items()}

    def session(self, session_id: str) -> Session:
        """The session as the next turn needs it; a new one when this agent never had it."""
        known = self._known.get(self._key(session_id))
        if known is None:
            return Session(session_id)
        totals = known.get("totals")
        return Session(
            session_id,
            resumed=bool(known.get("resumed")),
            totals=Usage.model_validate(totals) if totals else None,
            agent_session_id=known.get("agent_session_id"),
        )

    def keep(self, session: Session) -> None:
        """Remember a session as its last turn left it."""
        fields = asdict(session) | {
            "totals": session.totals.model_dump(mode="json") if session.totals else None
        }
        self._known.pop(self._key(session.id), None)
        self._known[self._key(session.id)] = fields
        self._known = dict(list(self._known.items())[-_KEPT:])
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft = self._path.with_suffix(".new")
            draft.write_text(json.dumps(self._known))
            draft.replace(self._path)

    def _key(self, session_id: str) -> str:
        return f"{self._agent} {session_id}"
