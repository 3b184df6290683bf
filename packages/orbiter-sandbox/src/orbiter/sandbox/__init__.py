"""Places where an agent's commands and code run without harm."""

from orbiter.sandbox.kubernetes import KubernetesSandbox
from orbiter.sandbox.local import LocalSandbox
from orbiter.sandbox.sandbox import Sandbox
from orbiter.sandbox.tools import sandbox_tools
from orbiter.sandbox.types import (
    CommandResult,
    Limits,
    SandboxError,
    SandboxUnavailableError,
)

__all__ = [
    "CommandResult",
    "KubernetesSandbox",
    "Limits",
    "LocalSandbox",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailableError",
    "sandbox_tools",
]
