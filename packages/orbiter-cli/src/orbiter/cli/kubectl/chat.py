"""`kubectl orbiter chat`: a terminal as a session's front end."""

import sys

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.turns import EXIT_CODES, Turns, as_json_line, open_turns, problem
from orbiter.cli.ui.input import given_or_read, parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say


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
    with open_turns(kubectl, name, redis_url) as turns:
        if interactive:
            from orbiter.cli.kubectl.interactive import talk

            return talk(turns, limit)
        return _one(turns, prompt, as_json=as_json, timeout=limit)


def _one(turns: Turns, prompt: str, *, as_json: bool, timeout: int | None) -> int:
    show = (lambda text: None) if as_json else turns.progress.text
    output = turns.take(prompt, show, timeout)
    if as_json:
        typer.echo(as_json_line(output))
    turns.progress.end_line()
    if output.status == "input_required" and not as_json:
        say("it asks: your next message is the answer", err=True)
    elif output.status != "success" and not as_json:
        turns.progress.error(problem(output))
    return EXIT_CODES.get(output.status, ExitCode.FAILED)
