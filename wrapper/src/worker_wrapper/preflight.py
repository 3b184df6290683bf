"""What has to be there before a worker takes a message: its agent's program, and the workspace.

__main__.py asks before Redis is talked to: a worker in the wrong image, or with a mount that is not
its user's, takes no message that another one could have answered.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from worker_wrapper.agents.base import Agent
from worker_wrapper.settings import Settings


class UnfitError(Exception):
    """The worker could answer nothing; the text names what is missing and the next step."""


def check(settings: Settings, environ: Mapping[str, str]) -> None:
    """See that the agent can be started and has somewhere to work.

    Raises:
        UnfitError: It has not.
    """
    check_program(settings.agent, environ.get("PATH", os.defpath))
    check_workspace(settings.workspace_dir)


def check_program(agent: Agent, path: str) -> None:
    """See that the agent's program is on PATH.

    Raises:
        UnfitError: It is not.
    """
    if shutil.which(agent.program, path=path) is None:
        raise UnfitError(
            f"AGENT_TYPE is {agent.name}, and its program {agent.program} is not on PATH ({path}): "
            f"use the worker image of {agent.name}, or install {agent.program}"
        )


def check_workspace(directory: Path) -> None:
    """See that the workspace is a directory that this user may write to.

    Raises:
        UnfitError: It is not.
    """
    where = f"WORKSPACE_DIR is {directory}"
    if not directory.exists():
        raise UnfitError(f"{where}, and there is no such directory: make it, or name another one")
    if not directory.is_dir():
        raise UnfitError(f"{where}, and that is no directory: name one")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UnfitError(
            f"{where}, and user {os.geteuid()} may not write there: let that user write (in "
            "Kubernetes fsGroup does), or name another one"
        )
