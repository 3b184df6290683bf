"""`orbiter task`: AgentTasks without a cluster, with the same worker and the same outcome."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.options import AsJson
from orbiter.cli.ui.outcome import ExitCode, UsageError, ends

if TYPE_CHECKING:
    from orbiter.cli.task.manifest import Manifest
    from orbiter.cli.task.run import LocalStatus

app = typer.Typer(help="Run AgentTasks on this machine, with no cluster.", no_args_is_help=True)
_PROGRAMS = {"claude": "claude", "codex": "codex", "factory": "droid"}
_EXIT = {
    "Completed": ExitCode.OK,
    "InputRequired": ExitCode.STOPPED,
    "Cancelled": ExitCode.INTERRUPTED,
}
_PASSED = ("projectId", "taskId")
_UNUSED = ("dependsOn", "queueName", "podTemplate", "ttlSecondsAfterFinished", "managedBy")


@app.callback()
def _tasks() -> None:
    """Run AgentTasks on this machine, with no cluster."""


@app.command()
@ends
def run(
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="The manifest.")],
    name: Annotated[str | None, typer.Option(help="Which AgentTask of the file.")] = None,
    workspace: Annotated[
        str | None, typer.Option(help="Where the agent works; a new directory by default.")
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer", metavar="TEXT", help="Answer to the agent's next question; any number of."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run an AgentTask manifest to its end and print the result as kubectl would.

    The agent works with your rights. Its key comes from the environment, or from Secrets in the
    same file. Ends with 0 when the task is Completed, 1 when it Failed, 3 when a question stays
    open, 130 after Ctrl-C.
    """
    import tempfile

    with _extra():
        from orbiter.cli.task.manifest import read_manifest

        manifest = read_manifest(Path(file), name)
        _check_programs(manifest)
        place = Path(tempfile.mkdtemp(prefix=f"orbiter-{manifest.name}-"))
        work = Path(workspace).resolve() if workspace else place / "workspace"
        work.mkdir(parents=True, exist_ok=True)
        return _run(manifest, place, work, list(answers or ()), as_json)


@contextmanager
def _extra() -> Iterator[None]:
    """What runs a task is installed only when asked for: say how, whichever part is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"orbiter task needs the extra orbiter-cli[local] ({error})") from error


def _run(manifest: "Manifest", place: Path, work: Path, answers: list[str], as_json: bool) -> int:
    import asyncio

    from orbiter.cli.task.redis_server import local_redis
    from orbiter.cli.task.run import LocalStatus, cancelled, run_task
    from orbiter.cli.task.screen import Screen
    from orbiter.cli.task.settings import environment, prompt_of
    from orbiter.cli.task.worker import LocalWorker
    from orbiter_contracts.retry import RetryPolicy

    log = place / "worker.log"
    screen = Screen(manifest.name, manifest.spec["agent"]["type"], quiet=as_json)
    for unused in _UNUSED:
        if unused in manifest.spec:
            screen.note(f"spec.{unused} means nothing without a cluster")
    prompt, retry = prompt_of(manifest), RetryPolicy.model_validate(manifest.spec["retry"])
    environ = environment(manifest, dict(os.environ), place)
    status = LocalStatus()
    try:
        with local_redis() as url:
            worker = LocalWorker(manifest, url, work, log, environ)

            async def main() -> None:
                async with screen.watching(status):
                    await run_task(
                        worker, prompt, retry, screen.asker(answers), screen.changed, status
                    )

            asyncio.run(main())
    except KeyboardInterrupt:
        cancelled(status)
        screen.changed(status)
    return _end(status, manifest, screen, work, log, as_json)


def _end(
    status: "LocalStatus", manifest: "Manifest", screen: Any, work: Path, log: Path, as_json: bool
) -> int:
    if as_json:
        from orbiter.cli.ui.terminal import print_json

        passed = {key: manifest.spec[key] for key in _PASSED if key in manifest.spec}
        print_json({"name": manifest.name, **passed, "status": status.to_api()})
    else:
        screen.table(status)
        if status.phase == "Failed" and "\n" in status.detail.strip():
            screen.note(status.detail.strip()[-1024:])
        screen.note(f"workspace: {work}")
        screen.note(f"worker's log: {log}")
    return _EXIT.get(status.phase, ExitCode.FAILED)


def _check_programs(manifest: "Manifest") -> None:
    import shutil

    kind = manifest.spec["agent"]["type"]
    program = _PROGRAMS.get(kind)
    if program is not None and shutil.which(program) is None:
        raise UsageError(f"{program} is not on PATH: install the agent {kind}, or name another one")
    if sys.platform == "win32":
        raise UsageError("the worker needs a POSIX system; use WSL or a cluster")
