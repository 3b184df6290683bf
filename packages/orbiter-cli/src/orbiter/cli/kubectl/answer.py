"""`kubectl orbiter answer`: a person's answer to the question of a task."""

import sys

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.questions import of_task, whole
from orbiter.cli.kubectl.references import Found, resolve
from orbiter.cli.kubectl.task_door import do
from orbiter.cli.kubectl.watch import follow, question_of
from orbiter.cli.ui.input import given_or_read, parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say


def run_answer(
    kubectl: Kubectl,
    name: str,
    text: str | None,
    *,
    wait: bool,
    timeout: str | None,
    as_json: bool,
) -> int:
    """Add an answer to a task's `spec.input`."""
    patience = parse_seconds(timeout)
    found = resolve(kubectl, name, ("AgentTask",))
    asked = of_task(found.object)
    if asked is None:
        raise _asks_nothing(found)
    if text is None and sys.stdin.isatty():
        say(whole(asked), err=True)
        text = input("> ")
    give(kubectl, found, given_or_read(text, "an answer"))
    say(f"agenttask/{found.name} answered", err=wait)
    if wait:
        return follow(kubectl, found.name, timeout=patience, as_json=as_json)
    return ExitCode.OK


def give(kubectl: Kubectl, found: Found, text: str) -> None:
    """Answer the question of a task as it was found.

    Args:
        kubectl: The cluster, in the task's namespace.
        found: The task, with the question that the person has seen.
        text: The answer.

    Raises:
        CommandError: It asks nothing, or what it asks is no matter of these words.
    """
    question = question_of(found.object)
    if question is None:
        raise _asks_nothing(found)
    space = str(found.object["metadata"]["namespace"])
    do(
        kubectl,
        lambda tasks: tasks.answer(space, found.name, text, question_id=question[0]),
        seen=found.object,
    )


def _asks_nothing(found: Found) -> CommandError:
    status = found.object.get("status", {})
    if status.get("phase") == "InputRequired":
        return CommandError(
            f"task {found.name}: its question is answered already; `kubectl orbiter watch"
            f" {found.name}` shows how it goes on"
        )
    return CommandError(
        f"task {found.name} is {status.get('phase', 'Pending')} and asks nothing: only a task that"
        " is InputRequired takes an answer"
    )
