"""What people read of a task: every Event, and the words that `kubectl get` has room for.

Pure; part of `plan`.
"""

from itertools import accumulate, takewhile
from typing import Final
from unicodedata import east_asian_width

from orbiter_contracts import Checkpoint
from orbiter_contracts.bounds import one_line
from orbiter_contracts.outcome import Outcome
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.kube.models import Event
from orbiter_operator.tasks.models import TaskStatus

COLUMNS: Final = 35
"""With a name of 46 characters, the longest that `kubectl orbiter submit` makes, and the widest
phase, a line has less than 120."""
_LONGEST_NAME = 128
_ORDINARY = (
    *("ConcurrencyLimit", "WaitingForConcurrencyKey", "WaitingForDependencies"),
    *("Suspended", "Starting"),
)


def waiting_events(
    status: TaskStatus, reason: str, message: str, attempt: int
) -> tuple[Event, ...]:
    """The Event of something that keeps a task from starting, unless it was told before."""
    if status.reason == reason or reason in _ORDINARY:
        return ()
    return (Event(kind="Warning", reason=reason, message=message, attempt=attempt),)


def entry_ignored_events(text: str | None, attempt: int) -> tuple[Event, ...]:
    """The Event of a queue entry that the task names and that is not its own."""
    if attempt > 1 or not text:
        return ()
    return (Event(kind="Warning", reason="EntryIgnored", message=text, attempt=attempt),)


def answered_events(by: str | None, attempt: int) -> tuple[Event, ...]:
    """The Event of an answer with which an attempt begins, where it says whose it is."""
    if not by:
        return ()
    message = f"answered by {person(by)}; attempt {attempt} goes on with it"
    return (Event(kind="Normal", reason="Answered", message=message, attempt=attempt),)


def inherits_events(task: str | None, kept: Checkpoint | None) -> tuple[Event, ...]:
    """The Event of a first attempt that goes on with what another task has left."""
    if task is None or kept is None:
        return ()
    message = f"goes on from task {task}: its checkpoint of {kept.time:%H:%M:%S}"
    turns = f"{kept.turns} turn{'' if kept.turns == 1 else 's'}"
    return (Event(kind="Normal", reason="Resumed", message=f"{message} ({turns})", attempt=1),)


def budget_events(told: Budgeted | None, attempt: int) -> tuple[Event, ...]:
    """The Event of an attempt that begins although its budget has no room for it."""
    if told is None or told.lacks is None:
        return ()
    message = f"attempt {attempt} begins all the same: {told.message}"
    return (Event(kind="Warning", reason=told.reason, message=message, attempt=attempt),)


def cancelled_words(by: str | None, otherwise: str) -> str:
    """The line about a task that a person ended."""
    return f"cancelled by {person(by)}" if by else otherwise


def person(by: str) -> str:
    """A name as one line: without the policy it may be anything."""
    return one_line("".join(each for each in by if each.isprintable()), _LONGEST_NAME)


def resumed_event(words: str, attempt: int, number: int) -> Event:
    """The Event of an attempt that works again after a disruption."""
    message = f"attempt {attempt}: {words}"
    return Event(kind="Normal", reason="Resumed", message=message, attempt=attempt, number=number)


def disrupted_event(reason: str, message: str, attempt: int, number: int) -> Event:
    """The Event of a disruption that was counted."""
    message = f"attempt {attempt}, disruption {number}: {message}"
    return Event(kind="Normal", reason=reason, message=message, attempt=attempt, number=number)


def attempt_failed_event(why: Outcome, attempt: int) -> Event:
    """The Event of a failed attempt that another one follows."""
    message = f"attempt {attempt}: {why.reason}: {why.message}"
    return Event(kind="Warning", reason="AttemptFailed", message=message, attempt=attempt)


def end_event(status: TaskStatus) -> Event:
    """The Event that tells how a task ended, or that it asks something."""
    good = status.phase in ("Completed", "InputRequired")
    took = f" after {status.duration}" if status.duration else ""
    reason = f"{status.reason}: " if not good and status.reason != status.phase else ""
    return Event(
        kind="Normal" if good or status.phase == "Cancelled" else "Warning",
        reason=status.phase or "",
        message=f"{status.phase}{took}: {reason}{status.message}",
        attempt=status.attempts,
    )


def too_large_event(status: TaskStatus) -> Event:
    """The Event of a status for which the object has no room at all."""
    text = f"its status cannot be stored, the object is too large: {status.message}"
    return Event(kind="Warning", reason="StatusTooLarge", message=text, attempt=status.attempts)


def headline(message: str, columns: int = COLUMNS) -> str:
    """The message in at most so many columns of a terminal, cut with an ellipsis.

    What is no printable character becomes a space: kubectl writes it as two and more.
    """
    printable = message if message.isprintable() else map(_printable, message)
    text = " ".join("".join(printable).split())
    # One after the other, and no further than there is room: each status comes through here.
    kept = sum(1 for _ in takewhile(columns.__ge__, accumulate(map(_columns, text))))
    if kept == len(text):
        return text
    kept = sum(1 for _ in takewhile(columns.__gt__, accumulate(map(_columns, text))))
    return f"{text[:kept].rstrip()}…"


def _printable(character: str) -> str:
    return character if character.isprintable() else " "


def _columns(character: str) -> int:
    return 2 if not character.isascii() and east_asian_width(character) in "WF" else 1
