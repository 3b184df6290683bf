"""`kubectl orbiter rotate`: begins a new session."""

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.turns import EXIT_CODES, as_json_line, open_turns, problem
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say


def run_rotate(
    kubectl: Kubectl, name: str, *, as_json: bool, timeout: str | None, redis_url: str | None
) -> int:
    """Begin a new session by sending the word that does it."""
    limit = parse_seconds(timeout)
    with open_turns(kubectl, name, redis_url) as turns:
        session = turns.session
        if not session.commands:
            raise CommandError(
                f"session {session.name} has no words that begin a new session; give it one:"
                f" `kubectl -n {session.namespace} patch posession {session.name} --type=merge"
                """ -p '{"spec":{"rotation":{"commands":["/new"]}}}'`"""
            )
        output = turns.take(session.commands[0], lambda text: None, limit)
        if as_json:
            typer.echo(as_json_line(output))
        elif output.status == "success":
            before = f" (it was {session.session_id})" if session.session_id else ""
            say(f"session {session.name} begins anew as {output.session_id}{before}")
        else:
            turns.progress.error(problem(output))
        return EXIT_CODES.get(output.status, ExitCode.FAILED)
