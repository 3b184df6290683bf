"""`kubectl orbiter chat` and `rotate`: a terminal as a session's front end."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.conversation import Conversation
from orbiter.cli.kubectl.redis_forward import RedisForward
from orbiter.cli.kubectl.session import taken_up
from orbiter.cli.kubectl.turns import EXIT_CODES, Turns, problem
from orbiter.cli.ui.input import given_or_read, parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.screen import Screen, say
from orbiter_contracts import POWorkerOutput


def run_chat(
    kubectl: Kubectl,
    name: str,
    *,
    once: str | None,
    as_json: bool,
    timeout: str | None,
    redis_url: str | None,
) -> int:
    """Talk to a session: one message with `once` or a stdin that is no terminal, else many."""
    limit = parse_seconds(timeout)
    interactive = once is None and sys.stdin.isatty()
    if interactive and as_json:
        raise CommandError("--json is for one message: add --once TEXT", ExitCode.USAGE)
    prompt = "" if interactive else given_or_read(once, "a message")
    with _turns(kubectl, name, redis_url) as turns:
        if interactive:
            from orbiter.cli.kubectl.interactive import talk

            return talk(turns, limit)
        return _one(turns, prompt, as_json=as_json, timeout=limit)


def run_rotate(
    kubectl: Kubectl, name: str, *, as_json: bool, timeout: str | None, redis_url: str | None
) -> int:
    """Begin a new session by sending the word that does it."""
    limit = parse_seconds(timeout)
    with _turns(kubectl, name, redis_url) as turns:
        session = turns.session
        if not session.commands:
            raise CommandError(
                f"session {session.name} has no words that begin a new session; give it one:"
                f" `kubectl -n {session.namespace} patch posession {session.name} --type=merge"
                """ -p '{"spec":{"rotation":{"commands":["/new"]}}}'`"""
            )
        output = turns.take(session.commands[0], lambda text: None, limit)
        if as_json:
            typer.echo(_as_json(output))
        elif output.status == "success":
            before = f" (it was {session.session_id})" if session.session_id else ""
            say(f"session {session.name} begins anew as {output.session_id}{before}")
        else:
            turns.screen.error(problem(output))
        return EXIT_CODES.get(output.status, ExitCode.FAILED)


def _one(turns: Turns, prompt: str, *, as_json: bool, timeout: int | None) -> int:
    show = (lambda text: None) if as_json else turns.screen.text
    output = turns.take(prompt, show, timeout)
    if as_json:
        typer.echo(_as_json(output))
    turns.screen.end_line()
    if output.status != "success" and not as_json:
        turns.screen.error(problem(output))
    return EXIT_CODES.get(output.status, ExitCode.FAILED)


def _as_json(output: POWorkerOutput) -> str:
    """One line of ASCII: everything is said, and a terminal obeys nothing of it."""
    return json.dumps(output.model_dump(mode="json"), separators=(",", ":"))


@contextmanager
def _turns(kubectl: Kubectl, name: str, redis_url: str | None) -> Iterator[Turns]:
    """Everything a turn needs; what was started for it ends with it, also when we are told to."""
    screen = Screen()
    session = taken_up(kubectl, name, screen)
    session.check()
    with _ended_by_signals(), RedisForward(kubectl, redis_url) as forward:
        try:
            yield Turns(kubectl, session, Conversation(forward, session), screen)
        except KeyboardInterrupt:
            screen.note("interrupted; what was sent is answered all the same")
            raise
        finally:
            screen.done()
            screen.end_line()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that no port-forward is left behind."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
