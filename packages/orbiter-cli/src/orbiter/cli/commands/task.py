"""`orbiter task`: AgentTasks without a cluster, with the same worker and the same outcome."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.files import check_writable
from orbiter.cli.ui.options import AsJson
from orbiter.cli.ui.outcome import ExitCode, ends

if TYPE_CHECKING:
    from orbiter.cli.task.directory import RunDirectory
    from orbiter.cli.task.manifest import Manifest
    from orbiter.cli.task.run import LocalStatus

app = typer.Typer(help="Run AgentTasks on this machine, with no cluster.", no_args_is_help=True)
_EXIT = {
    "Completed": ExitCode.OK,
    "InputRequired": ExitCode.WAITING,
    "Cancelled": ExitCode.INTERRUPTED,
}
_PASSED = ("projectId", "taskId")
_UNUSED = (
    *("dependsOn", "queueName", "podTemplate", "ttlSecondsAfterFinished", "managedBy"),
    *("resumeFrom", "artifacts", "queuePriorityClass", "concurrencyKey", "profileRef"),
    "notify",
)


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
    transcript: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Append what the agent says and does: events, a line of JSON each."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run an AgentTask manifest to its end and print the result as kubectl would.

    The agent works with your rights. Its key comes from the environment, or from Secrets in the
    same file. Ends with 0 when the task is Completed, 1 when it Failed, 4 when a question stays
    open, 130 after Ctrl-C.
    """
    from orbiter.cli.task.directory import run_directory
    from orbiter.cli.task.manifest import read_manifest
    from orbiter.cli.task.requirements import check_program

    if transcript is not None:
        check_writable("--transcript", transcript)
    manifest = read_manifest(Path(file), name)
    check_program(manifest)
    with run_directory(manifest.name, workspace) as run_dir:
        told = None if transcript is None else Path(transcript).resolve()
        return _run(manifest, run_dir, list(answers or ()), told, as_json)


def _run(
    manifest: "Manifest",
    run_dir: "RunDirectory",
    answers: list[str],
    transcript: Path | None,
    as_json: bool,
) -> int:
    import asyncio

    from orbiter.cli.task.display import Display
    from orbiter.cli.task.requirements import check_environment
    from orbiter.cli.task.run import LocalStatus, cancelled, run_task
    from orbiter.cli.task.settings import environment, prompt_of
    from orbiter_contracts.retry import RetryPolicy

    prompt, retry = prompt_of(manifest), RetryPolicy.model_validate(manifest.spec["retry"])
    environ = environment(manifest, dict(os.environ), run_dir.private)
    check_environment(manifest, environ)
    display = Display(manifest.name, manifest.spec["agent"]["type"], quiet=as_json)
    for unused in _UNUSED:
        if unused in manifest.spec:
            display.note(f"spec.{unused} means nothing without a cluster")
    if manifest.spec["agent"].get("skills"):
        display.note("spec.agent.skills means nothing without a cluster")
    status = LocalStatus()
    try:
        from orbiter.cli.task.redis_server import local_redis
        from orbiter.cli.task.worker import LocalWorker

        with local_redis() as url:
            worker = LocalWorker(
                *(manifest, url, run_dir.workspace, run_dir.log, environ), transcript=transcript
            )

            async def main() -> None:
                async with display.watching(status):
                    await run_task(
                        worker, prompt, retry, display.asker(answers), display.changed, status
                    )

            asyncio.run(main())
    except KeyboardInterrupt:
        cancelled(status)
        display.changed(status)
    return _end(status, manifest, display, run_dir, as_json)


def _end(
    status: "LocalStatus",
    manifest: "Manifest",
    display: Any,
    run_dir: "RunDirectory",
    as_json: bool,
) -> int:
    run_dir.clear(failed=status.phase != "Completed")
    if as_json:
        from orbiter.cli.ui.terminal import print_json

        kept: dict[str, Any] = {key: manifest.spec[key] for key in _PASSED if key in manifest.spec}
        if run_dir.workspace.is_dir():
            kept["workspace"] = str(run_dir.workspace)
        print_json({"name": manifest.name, **kept, "status": status.to_api()})
    else:
        display.table(status)
        if status.phase == "Failed" and "\n" in status.detail.strip():
            display.note(status.detail.strip()[-1024:])
        if run_dir.workspace.is_dir():
            display.note(f"workspace: {run_dir.workspace}")
        if run_dir.log.exists():
            display.note(f"worker's log: {run_dir.log}")
    return _EXIT.get(status.phase, ExitCode.FAILED)
