"""The two containers of a task's pod that have its git credential: `clone`, and then `push`.

The worker's image started with another argument. `clone` has the agent's uid, makes the workspace
and ends before the agent begins; `push` has a uid of its own and no other file in common with the
worker than its socket. Neither runs anything of the repository, and neither sees Redis.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Json

from orbiter_contracts import GitWorkspace, Workspace, WorkspaceReport
from orbiter_contracts.environment import PUSH
from orbiter_contracts.exit_codes import UNUSABLE
from worker_wrapper.logging import Log, configure
from worker_wrapper.process.kernel import become_subreaper
from worker_wrapper.redact import Redactor
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.container_input import ContainerInput
from worker_wrapper.workspace.handover import SOCKET, read_report, write_report
from worker_wrapper.workspace.push_server import PushServer
from worker_wrapper.workspace.workspace import WorkspaceError, prepare

CLONED: Final = "objects"
"""Where `clone` leaves `push` a copy of what it fetched, as it was before the agent began."""


class Given(ContainerInput):
    """What such a container is told in its environment, by the operator.

    `tmpdir` is a volume that the two have in common, and nobody else.
    """

    git_workspace: Json[GitWorkspace]
    git_credentials_dir: Path
    worker_handover_dir: Path
    workspace_dir: Path
    tmpdir: Path


def main(which: str, environ: Mapping[str, str]) -> int:
    """Clone and end, or wait for what is to be pushed until somebody ends us.

    Args:
        which: `clone` or `push`.
        environ: Our environment.

    Returns:
        The exit code: 0 also when the clone failed, because the worker is to say so.
    """
    if (given := Given.of(environ, which)) is None:
        return UNUSABLE
    become_subreaper()
    redactor = Redactor.of(environ)
    log = configure(redactor, level="info", worker_id=f"git-{which}")
    if which != PUSH:
        asyncio.run(clone(given, environ, redactor, log))
        return 0
    # Ended when the worker has ended: nothing that matters is under way then.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(push_server(given, environ, redactor, log).serve())
    while True:  # Started again it would have nothing to do.
        signal.pause()


async def clone(given: Given, environ: Mapping[str, str], redactor: Redactor, log: Log) -> None:
    """Make the workspace, and leave word of what came of it."""
    try:
        report = await prepare(
            Workspace(git=given.git_workspace),
            *(given.workspace_dir, given.git_credentials_dir),
            environ=environ,
            spill_dir=given.tmpdir,
            stop=StopTurn(),
        )
        if given.git_workspace.push == "Always":
            objects = given.workspace_dir / ".git" / "objects"
            shutil.copytree(objects, given.tmpdir / CLONED, dirs_exist_ok=True)
    except WorkspaceError as error:
        report = WorkspaceReport(error=redactor.scrub(str(error)))
    except shutil.Error as error:
        _, where, why = error.args[0][0]  # of each file that could not be copied
        report = WorkspaceReport(error=redactor.scrub(f"{where}: {why}"))
    except OSError as error:
        report = WorkspaceReport(error=f"{error.filename or given.tmpdir}: {error.strerror}")
    write_report(given.worker_handover_dir, report)
    log.info("cloned", base=report.base_sha, branch=report.branch, error=report.error)


def push_server(
    given: Given, environ: Mapping[str, str], redactor: Redactor, log: Log
) -> PushServer:
    """What waits for the agent's commits; to be made when the clone has ended."""
    return PushServer(
        socket_path=given.worker_handover_dir / SOCKET,
        wanted=given.git_workspace,
        branch=read_report(given.worker_handover_dir).branch,
        credentials_dir=given.git_credentials_dir,
        cloned=given.tmpdir / CLONED,
        directory=given.tmpdir,
        environ=environ,
        redactor=redactor,
        log=log,
    )
