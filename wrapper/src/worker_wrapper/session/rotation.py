"""Which session a user's message belongs to, and all six reasons for a new one. Pure.

`Command` and `Requested` are the message's (`asked_for`), `Idle` and `Record` the user's record's
(`choose`), `Tokens` and `Topic` the conversation's (`renew_if_outgrown`); seeds/001 §6.3 and §6.4.
A fresh record (record.py) wins over SESSION_ID, which a new worker has from whoever started it; a
stale one does not.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from orbiter_contracts import PORotation, POTurn, POWorkerInput, RotationReason, SessionRecord
from worker_wrapper.agents.base import Session
from worker_wrapper.session.embedding import Embedder, long_words, similarities
from worker_wrapper.settings import RotationRules

COMPARED_TURNS: Final = 6
"""How many of the last turns a message is compared with."""
_COMPARED_CHARACTERS: Final = 2000
_FEW_WORDS: Final = 3
"""A message of fewer long words ("yes, do that please") goes on with whatever was the topic."""
_ADDRESSED: Final = re.compile(r"(/[^@]+)@\w+")


@dataclass(frozen=True, slots=True)
class Choice:
    """The session a message belongs to.

    Attributes:
        record: The user's record as it has to be now.
        reason: Why it is another session than before; None when it is not, or there was none.
        previous: The session before, if there was one.
    """

    record: SessionRecord
    reason: RotationReason | None = None
    previous: str | None = None

    def rotation(self, now: datetime) -> PORotation | None:
        """What the state says of the change of session; None when there was none."""
        if self.reason is None:
            return None
        return PORotation.model_validate(
            {"reason": self.reason, "from": self.previous, "to": self.record.session_id, "at": now}
        )

    def renewed(self, new_id: str, reason: RotationReason) -> "Choice":
        """A new session instead."""
        now = self.record.last_activity
        record = self.record.model_copy(update={"session_id": new_id, "created_at": now})
        return replace(self, record=record, reason=reason, previous=self.record.session_id)


def asked_for(
    message: POWorkerInput, commands: tuple[str, ...]
) -> tuple[RotationReason | None, str]:
    """Why a message asks for a new session, if it does, and what of it the agent is told."""
    commanded, prompt = split_command(message.prompt, commands)
    if commanded:
        return "Command", prompt
    return None if message.session_continue else "Requested", prompt


def choose(
    record: SessionRecord | None,
    *,
    asked: RotationReason | None,
    now: datetime,
    idle_seconds: float,
    worker_id: str,
    previous: str | None,
    first_id: str | None,
    new_id: str,
) -> Choice:
    """Decide which session a message belongs to (seeds/001 §6.3).

    Args:
        record: The user's record, if there is one.
        asked: Why a new session was asked for, if it was.
        now: The time.
        idle_seconds: After so long a new session begins by itself.
        worker_id: Us.
        previous: Session of the user's message before this one, if there was one.
        first_id: The id for the first session of a worker that is new, if it was given one.
        new_id: The id of a session that begins with this very message. Always the same for the
            same message: one that is delivered again after a crash does not begin a session twice.
    """

    def new(session_id: str, reason: RotationReason | None) -> Choice:
        fresh = SessionRecord(
            session_id=session_id, worker_id=worker_id, created_at=now, last_activity=now
        )
        another = previous is not None and previous != session_id
        return Choice(fresh, reason if another else None, previous)

    if record is None:
        if previous == new_id:
            return new(new_id, None)
        reason: RotationReason = asked or "Idle"
        return new(new_id if asked or previous else first_id or new_id, reason)
    kept = record.model_copy(update={"worker_id": worker_id, "last_activity": now})
    if record.session_id == new_id:
        return Choice(kept, None, previous)
    if previous is None:
        previous = record.session_id
    if asked:
        return new(new_id, asked)
    if now - _aware(record.last_activity) > timedelta(seconds=idle_seconds):
        return new(first_id or new_id, "Idle")
    return Choice(kept, "Record" if record.session_id != previous else None, previous)


async def renew_if_outgrown(
    choice: Choice,
    rules: RotationRules,
    conversation: Session,
    prompt: str,
    turns: Callable[[], Awaitable[Sequence[POTurn]]],
    embedder: Embedder,
    *,
    new_id: str,
) -> Choice:
    """Begin a new session after all when the conversation of the one chosen is a reason for it.

    Args:
        choice: What was chosen by the record and the message.
        rules: When a conversation is a reason.
        conversation: What is known of the one that would go on.
        prompt: What the agent is told.
        turns: Looks up its last turns; only asked when the topic matters.
        embedder: Compares topics.
        new_id: As for `choose`.
    """
    if choice.reason or choice.previous is None or choice.record.session_id == new_id:
        return choice
    last = await turns() if rules.topic_similarity is not None else []
    reason = await outgrown(rules, conversation, prompt, last, embedder)
    return choice.renewed(new_id, reason) if reason else choice


async def outgrown(
    rules: RotationRules,
    session: Session,
    message: str,
    turns: Sequence[POTurn],
    embedder: Embedder,
) -> RotationReason | None:
    """Say why a message begins a new session although its old one is still fresh.

    Args:
        rules: When that is so.
        session: What is known of the old session.
        message: The message.
        turns: The last turns of the old session; only looked at for the topic.
        embedder: Compares topics.
    """
    if (session.context_tokens or 0) > rules.max_tokens:
        return "Tokens"
    if rules.topic_similarity is None or not turns or len(set(long_words(message))) < _FEW_WORDS:
        return None
    texts = [f"{turn.prompt}\n{turn.text}"[:_COMPARED_CHARACTERS] for turn in turns]
    likeness = await similarities(embedder, message, [*texts, "\n".join(texts)])
    return "Topic" if max(likeness) < rules.topic_similarity else None


def split_command(prompt: str, commands: tuple[str, ...]) -> tuple[bool, str]:
    """Tell whether a prompt starts with one of our commands, and what is left of it.

    In groups, chat programs send a command that begins with a slash with the bot's name behind it.

    >>> split_command("/new fix the login", ("/new",))
    (True, 'fix the login')
    >>> split_command("/new@some_bot", ("/new",))
    (True, '')
    """
    word, *rest = prompt.split(None, 1) or [""]
    addressed = _ADDRESSED.fullmatch(word)
    if word not in commands and not (addressed and addressed[1] in commands):
        return False, prompt
    return True, "".join(rest).strip()


def _aware(moment: datetime) -> datetime:
    """A time without a zone is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
