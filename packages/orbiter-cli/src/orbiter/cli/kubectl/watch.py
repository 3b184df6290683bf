"""`kubectl orbiter watch`: a task's story as it happens, and what came of it."""

import json
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final

import typer

from orbiter.cli.kubectl.client import EVENT, Kubectl, Object, decode, explain
from orbiter.cli.kubectl.references import RESOURCES, resolve
from orbiter.cli.kubectl.screen import Screen
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode, ended_by_signals
from orbiter.cli.ui.progress import Progress, say
from orbiter.cli.ui.text import facts_table, one_line, seconds, spent
from orbiter.client.objects import FINAL as ENDED
from orbiter.client.objects import open_question

if TYPE_CHECKING:
    from orbiter.cli.kubectl.transcript_feed import Feed

_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries of a watch that does not come about: an API server restarts meanwhile."""
_USUAL: Final = ("Pending", "Starting")
_LONGEST: Final = (160, 400)
"""Characters of a line; one that says why nothing begins has its next step at its end."""
_EXIT_CODES: Final = {
    "Completed": ExitCode.OK,
    "Failed": ExitCode.FAILED,
    "Cancelled": ExitCode.CANCELLED,
    "InputRequired": ExitCode.WAITING,
}


def run_watch(
    kubectl: Kubectl,
    name: str,
    *,
    timeout: str | None,
    as_json: bool,
    plain: bool,
    redis_url: str | None,
) -> int:
    """Follow a task and its agent to its end, or to a question that nobody has answered."""
    patience = parse_seconds(timeout)
    found = resolve(kubectl, name, ("AgentTask",))
    screen = Screen(plain=plain)
    if as_json or stands(found.object):
        return follow(kubectl, found.name, timeout=patience, as_json=as_json, screen=screen)
    try:
        from orbiter.cli.kubectl.transcript_feed import Feed
    except ModuleNotFoundError as error:
        from orbiter.cli.ui.sentences import sentence

        screen.note(f"what the agent does is not shown: {sentence(error)}")
        return follow(kubectl, found.name, timeout=patience, as_json=as_json, screen=screen)
    feed = Feed(kubectl, screen, redis_url)
    with ended_by_signals(), closing(feed):
        return follow(
            kubectl, found.name, timeout=patience, as_json=as_json, screen=screen, feed=feed
        )


def follow(
    kubectl: Kubectl,
    name: str,
    *,
    timeout: int | None,
    as_json: bool,
    screen: Screen | None = None,
    feed: "Feed | None" = None,
) -> int:
    """Show every change of a task; returns the exit code that its last phase means.

    Args:
        kubectl: The cluster, in the task's namespace.
        name: The task.
        timeout: Seconds after which nothing more is waited for.
        as_json: Print each status as JSON, and nothing for people.
        screen: Where it appears.
        feed: What the agent does, which is shown too.

    Raises:
        CommandError: It was deleted, or time was over.
    """
    screen = screen or Screen(plain=False)
    progress = screen.progress
    shown = None
    try:
        with closing(changes(kubectl, name, timeout, progress)) as objects:
            for task in objects:
                status = task.get("status", {})
                if feed is not None:
                    feed.seen(task)
                    if stands(task):
                        feed.finish()
                live = feed is not None and feed.sees
                if (current := _telling(status, live=live)) != shown:
                    shown = current
                    _tell(screen, task, as_json=as_json)
                if stands(task):
                    screen.done()
                    if not as_json:
                        say(summary(task))
                    return _EXIT_CODES[status["phase"]]
    except KeyboardInterrupt:
        screen.note(f"no longer watching; `kubectl orbiter cancel {name}` would stop the task")
        raise
    finally:
        screen.done()
    raise CommandError(
        f"task {name} has not ended within {timeout} s; it goes on", ExitCode.TIMEOUT
    )


def stands(task: Object) -> bool:
    """Whether nothing more will happen by itself: it ended, or its question is not answered yet."""
    status = task.get("status", {})
    if status.get("phase") == "InputRequired":
        return question_of(task) is not None
    return status.get("phase") in ENDED


def question_of(task: Object) -> tuple[str, str] | None:
    """Id and text of the question that the task waits with; None when it is answered or none."""
    waits = open_question(task)
    return None if waits is None else (waits, task["status"]["inputRequest"].get("question", ""))


def changes(
    kubectl: Kubectl, name: str, timeout: int | None, progress: Progress
) -> Generator[Object, None, None]:
    """Every state of a task from now on, until time is over. A watch that breaks begins anew.

    Raises:
        CommandError: The task is gone, or cannot be read.
    """
    words = (
        *("get", RESOURCES["AgentTask"], f"--field-selector=metadata.name={name}"),
        *("--watch", "--output-watch-events", "-o", "json"),
    )
    broken = 0
    while timeout is None or progress.elapsed < timeout:
        with kubectl.running(*words) as child, _killed_after(child, timeout, progress):
            assert child.stdout is not None and child.stderr is not None  # noqa: S101, PT018
            for line in child.stdout:
                event = decode(line, root=EVENT)
                if event["type"] == "DELETED":
                    raise CommandError(f"task {name} was deleted", ExitCode.NOT_FOUND)
                broken = 0
                yield event["object"]
            said = child.stderr.read().strip()
            if child.wait() > 0:
                if broken == len(_PAUSES):
                    raise explain(said or "kubectl get --watch failed without a word")
                time.sleep(_PAUSES[broken])
                broken += 1
        _be_there(kubectl, name)


def _be_there(kubectl: Kubectl, name: str) -> None:
    """A watch of what is gone would be silent for ever."""
    try:
        resolve(kubectl, f"at/{name}")
    except CommandError as error:
        if error.code == ExitCode.NOT_FOUND:
            raise


@contextmanager
def _killed_after(child: "Popen[str]", timeout: int | None, progress: Progress) -> Iterator[None]:
    """End a child when time is over, so that nobody waits for its next line."""
    if timeout is None:
        yield
        return
    clock = threading.Timer(max(0.0, timeout - progress.elapsed), child.kill)
    clock.start()
    try:
        yield
    finally:
        clock.cancel()


def _telling(status: Object, *, live: bool) -> tuple[Any, ...]:
    """What is worth a new line when it changes; what the agent does is seen better `live`."""
    fields = ("phase", "reason", "message", "attempts", *(() if live else ("progress",)))
    return tuple(status.get(field) for field in fields)


def _tell(screen: Screen, task: Object, *, as_json: bool) -> None:
    status = task.get("status", {})
    if as_json:
        typer.echo(json.dumps({"name": task["metadata"]["name"], "status": status}))
        return
    phase = status.get("phase", "Pending")
    about = [status.get("progress") if phase == "Running" else None, status.get("message")]
    if phase == "InputRequired" and question_of(task) is None:
        about = ["answered; a new Job goes on with it"]
    text = next((each for each in about if each), "")
    reason = status.get("reason")
    # the table at the end has the reason of an end, and of work that goes well there is none
    if phase == "Pending" and reason and reason not in _USUAL:
        text = f"{reason}: {text}" if text else str(reason)
    text = one_line(text, _LONGEST[phase == "Pending"])
    elapsed = seconds(screen.progress.elapsed)
    screen.tell(f"{elapsed:>8}  {phase:<13}  {text}".rstrip())
    if phase not in ENDED:
        screen.stands(f"{phase} {elapsed}")


def summary(task: Object) -> str:
    """What came of it, one fact a line."""
    name, status = task["metadata"]["name"], task.get("status", {})
    result, question = status.get("result", {}), question_of(task)
    facts = {
        "task": name,
        "phase": f"{status.get('phase')} ({status.get('reason', '-')})",
        "summary": result.get("summary") or status.get("message"),
        "duration": status.get("duration"),
        "attempts": status.get("attempts"),
        "spent": spent(status.get("usage", {})),
        "commit": result.get("commitSHA"),
        "pull request": result.get("prURL"),
        "job": status.get("jobName"),
    }
    if question:
        facts["question"] = question[1]
        facts["answer it"] = f"kubectl orbiter answer {name} TEXT"
    return facts_table(facts)
