"""The text of every Event about a task. Pure; part of `plan`."""

from orbiter_contracts.bounds import one_line
from orbiter_contracts.outcome import Outcome
from orbiter_operator.kube.models import Event
from orbiter_operator.tasks.models import TaskStatus

_LONGEST_NAME = 128
_ORDINARY = ("ConcurrencyLimit", "WaitingForDependencies", "Suspended", "Starting")


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
