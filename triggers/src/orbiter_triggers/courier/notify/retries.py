"""What follows from a try: told, again later, or never. Pure.

| what came | what follows |
|---|---|
| 2xx | it is told |
| 410 | a dead letter at once: the receiver wants no more of it |
| any other 3xx or 4xx, an address that is not allowed | again, five times in all |
| 408, 425, 429, 5xx, no answer, a Secret that is not there | again, for a day |
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Literal, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_triggers.courier.notify.models import DAY, Notification

FIRST_PAUSE: Final = timedelta(seconds=5)
LONGEST_PAUSE: Final = timedelta(hours=1)
MOST_REFUSALS: Final = 5
_FACTOR: Final = 3
_STEPS: Final = 10
_PASSING: Final = frozenset({408, 425, 429})
_GONE: Final = 410
_LONGEST_WHY: Final = 300


class Answer(NamedTuple):
    """What came of a try.

    Attributes:
        status: The receiver's; None when there was no answer.
        problem: What else stood in the way, as a sentence; nothing secret is in it.
        retry_after: What the header of that name says.
        refused: Whether it is we who do not send there.
        setup: Whether a person has to mend it: a Secret, or an address.
    """

    status: int | None = None
    problem: str = ""
    retry_after: str = ""
    refused: bool = False
    setup: bool = False


class Verdict(NamedTuple):
    """What follows.

    Attributes:
        state: `sent`, `waiting` or `dead`.
        notification: It, with what is known of its tries now.
    """

    state: Literal["sent", "waiting", "dead"]
    notification: Notification


def verdict(told: Notification, answer: Answer, now: datetime, jitter: float) -> Verdict:
    """What follows from a try.

    Args:
        told: What was sent.
        answer: What came of it.
        now: The time.
        jitter: From 0 to 1, by chance: receivers that were away are not all asked at once.
    """
    status = answer.status
    why = one_line(answer.problem or f"the receiver answered {status}", _LONGEST_WHY)
    tried = told.model_copy(update={"tries": told.tries + 1, "why": why})
    if status is not None and 200 <= status < 300:
        return Verdict("sent", tried)
    if _refused(answer):
        tried = tried.model_copy(update={"refusals": told.refusals + 1})
        if status == _GONE or tried.refusals >= MOST_REFUSALS:
            return Verdict("dead", tried)
    due = now + max(_pause(told.tries, jitter), asked_pause(answer.retry_after, now))
    if due > told.noted + DAY:
        ended = f"{why}; tried {tried.tries} times in a day"
        return Verdict("dead", tried.model_copy(update={"why": one_line(ended, _LONGEST_WHY)}))
    return Verdict("waiting", tried.model_copy(update={"due": due}))


def asked_pause(header: str, now: datetime) -> timedelta:
    """How long a receiver asks to be left alone: seconds, or until a date. Total; 0 for neither."""
    text = header.strip()[:64]
    try:
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text), 2 * DAY.total_seconds()))
        until = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return timedelta()
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(until - now, timedelta()), 2 * DAY)


def _refused(answer: Answer) -> bool:
    if answer.status is None:
        return answer.refused
    return answer.status < 500 and answer.status not in _PASSING


def _pause(tries: int, jitter: float) -> timedelta:
    """5 s, then three times as long each time, an hour at most; a quarter of it more or less."""
    grown = FIRST_PAUSE * float(_FACTOR ** min(tries, _STEPS))
    return min(grown, LONGEST_PAUSE) * (0.75 + jitter / 2)
