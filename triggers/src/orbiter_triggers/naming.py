"""Names, labels and annotations of a trigger's tasks. A name follows from what made the task."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Final

KIND: Final = "AgentTrigger"
TRIGGER: Final = "orbiter.dev/agenttrigger"
"""Label of a task: the trigger that has made it."""
SCHEDULED: Final = "orbiter.dev/scheduled-time"
"""Annotation of a task: for which time of the schedule it was made."""
EVENT: Final = "orbiter.dev/event"
"""Annotation of a task: the event that it was made of, as its entry in the stream is named."""
NUMBER: Final = "orbiter.dev/event-number"
"""Annotation of a task: of which issue or pull request of its trigger's repository it came."""
COMMIT: Final = "orbiter.dev/event-commit"
"""Annotation of a task: of which commit there."""
WEBHOOK_SECRET: Final = "orbiter-webhooks"  # noqa: S105 - the name of one
"""Secret in each namespace with the secrets of its triggers' webhooks."""
_LONGEST: Final = 63
_DIGEST: Final = 8
_EVENT_DIGEST: Final = 16
_EVENT_TAIL: Final = re.compile(rf"-([0-9a-f]{{{_EVENT_DIGEST}}})")


def scheduled_name(trigger: str, uid: str, moment: datetime) -> str:
    """Name of the task for one time of a schedule: there is one, however often it is made.

    Args:
        trigger: The trigger's name.
        uid: Its uid: one that is made anew under its name has tasks of its own.
        moment: The time, which readers find in the name, in UTC.
    """
    when = moment.astimezone(UTC).strftime("%Y%m%d%H%M")
    return _named(trigger, f"{when}-{_digest(f'{uid}/cron/{when}')[:_DIGEST]}")


def event_name(trigger: str, uid: str, key: str) -> str:
    """Name of the task of an event.

    Args:
        trigger: The trigger's name.
        uid: Its uid.
        key: What is the same of two events that are to make one task.
    """
    return _named(trigger, event_digest(uid, key))


def event_digest(uid: str, key: str) -> str:
    """What such a name ends with, and by what it is remembered that there was a task."""
    return _digest(f"{uid}/event/{key}")[:_EVENT_DIGEST]


def digest_in(name: str) -> str | None:
    """The digest in a task's name; None when it is none of an event's."""
    found = _EVENT_TAIL.search(name, max(len(name) - _EVENT_DIGEST - 1, 0))
    return found[1] if found else None


def scheduled_time(obj: dict[str, Any]) -> datetime | None:
    """For which time of its trigger's schedule a task says it was made; None for none.

    Whoever may write tasks may write that, too: it is believed where the name says the same.
    """
    text = (obj["metadata"].get("annotations") or {}).get(SCHEDULED)
    try:
        found = datetime.fromisoformat(str(text))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):
        return None  # the first and the last day of the calendar are none of UTC everywhere


def shown(moment: datetime) -> str:
    """A time of a schedule as people and programs read it, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _named(trigger: str, tail: str) -> str:
    return f"{trigger[: _LONGEST - len(tail) - 1].rstrip('-.')}-{tail}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
