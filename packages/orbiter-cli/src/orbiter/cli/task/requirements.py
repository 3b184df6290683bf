"""What the agent of a task needs on this machine: told before anything starts."""

import os
import shutil
import sys
from collections.abc import Mapping

from orbiter.cli.task.manifest import Manifest
from orbiter.cli.ui.outcome import UsageError

PROGRAMS = {
    "claude": ("claude", "npm install -g @anthropic-ai/claude-code"),
    "codex": ("codex", "npm install -g @openai/codex"),
    "factory": ("droid", "npm install -g @factory/cli"),
    "gemini": ("gemini", "npm install -g @google/gemini-cli"),
    "opencode": ("opencode", "npm install -g opencode-ai"),
}
"""The program of an agent, and how it is installed; an Orbiter agent comes with this command."""
_SANDBOX = "IS_SANDBOX"


def check_program(manifest: Manifest, *, platform: str = sys.platform) -> None:
    """Be sure that the agent's program is there.

    Raises:
        UsageError: It is not, or this system cannot run a worker.
    """
    if platform == "win32":
        raise UsageError("the worker needs a POSIX system; use WSL or a cluster")
    kind = manifest.spec["agent"]["type"]
    program, install = PROGRAMS.get(kind, ("", ""))
    if program and shutil.which(program) is None:
        raise UsageError(
            f"{program} is not on PATH: install the agent {kind} ({install}), "
            "or name another one in spec.agent.type"
        )


def check_environment(
    manifest: Manifest, environ: Mapping[str, str], *, uid: int | None = None
) -> None:
    """Be sure that the agent would find its key, and may work as this user.

    Args:
        manifest: The task.
        environ: What its worker will get, Secrets of the file included.
        uid: Whose process it will be; ours by default.

    Raises:
        UsageError: It would not; the text names the variable.
    """
    from worker_wrapper.agents import load_agent

    kind = manifest.spec["agent"]["type"]
    credentials = load_agent(kind).credentials
    if credentials and not any(environ.get(name) for name in credentials):
        first, *others = credentials
        instead = f" (or {', '.join(others)})" if others else ""
        raise UsageError(
            f"{first} is not set: the agent {kind} needs it{instead}; set it, or name a Secret of "
            f"{manifest.name}'s file in spec.agent.credentialsSecretRef"
        )
    root = (os.geteuid() if uid is None else uid) == 0
    if kind == "claude" and root and not (environ.get(_SANDBOX) and _SANDBOX in _passed(environ)):
        raise UsageError(
            "Claude Code does not work unattended as root: be another user, or, where this machine "
            f"may be spoilt, put {_SANDBOX}=1 AGENT_ENV={_SANDBOX} before the command"
        )


def _passed(environ: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in environ.get("AGENT_ENV", "").split(",")]
