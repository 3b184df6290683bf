"""`kubectl orbiter inbox`: what waits for a person, answered from there."""

import json
import sys
from datetime import UTC, datetime
from typing import Final

import typer

from orbiter.cli.kubectl.answer import give
from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.questions import Waiting, inside, waiting, whole
from orbiter.cli.kubectl.references import Found
from orbiter.cli.kubectl.session_answer import QuestionGoneError, give_session
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import ago, aligned, one_line

_QUESTION: Final = 70
_EMPTY: Final = "nothing waits for a person"


def run_inbox(kubectl: Kubectl, *, everywhere: bool, as_json: bool, redis_url: str | None) -> int:
    """List what waits; at a terminal, answer it too."""
    found = waiting(kubectl, everywhere=everywhere, redis_url=redis_url)
    if as_json:
        typer.echo(json.dumps([each.as_json() for each in found]))
        return ExitCode.OK
    if not (found and sys.stdin.isatty() and sys.stdout.isatty()):
        say(table(found, datetime.now(UTC)) if found else _EMPTY)
        return ExitCode.OK
    while found:
        say(table(found, datetime.now(UTC)))
        chosen = _choose(found)
        if chosen is None:
            return ExitCode.OK
        if _answer(kubectl, chosen, redis_url):
            found.remove(chosen)
    say(_EMPTY)
    return ExitCode.OK


def table(found: list[Waiting], now: datetime) -> str:
    """What waits, one a line, each with its number."""
    rows = [("", "NAMESPACE", "NAME", "WAITS", "ASKS", "QUESTION")]
    for number, each in enumerate(found, 1):
        since = ago(each.asked_at, now).removesuffix(" ago")
        asks = (each.kind, one_line(each.question, _QUESTION))
        rows.append((str(number), each.namespace, each.reference, since, *asks))
    return aligned(rows)


def _choose(found: list[Waiting]) -> Waiting | None:
    """Which one the person wants to answer; None to leave."""
    while True:
        typed = _line(f"answer which? 1-{len(found)}, Enter leaves: ")
        if not typed:
            return None
        if typed.isdecimal() and 0 < int(typed) <= len(found):
            return found[int(typed) - 1]
        say(f"there is no number {one_line(typed, 20)!r} in the list", err=True)


def _answer(kubectl: Kubectl, each: Waiting, redis_url: str | None) -> bool:
    """Ask the person and pass the answer on; False when it was left or refused, and still asks."""
    say(f"\n{whole(each)}")
    text = _line("> ")
    if not text:
        return False
    there = inside(kubectl, each.namespace)
    try:
        if each.of_session:
            give_session(there, each.name, each.id, text, redis_url)
        else:
            give(there, Found("AgentTask", each.object), text)
    except QuestionGoneError as error:
        say(f"error: {error}\n", err=True)
        return True
    except CommandError as error:
        say(f"error: {error}", err=True)
        return False
    say(f"{each.reference} answered\n")
    return True


def _line(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        typer.echo()
        return ""
