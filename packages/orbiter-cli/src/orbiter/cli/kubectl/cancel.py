"""`kubectl orbiter cancel`: stops a task for good."""

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.references import resolve
from orbiter.cli.kubectl.task_door import do
from orbiter.cli.kubectl.watch import follow
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import ExitCode
from orbiter.cli.ui.progress import say


def run_cancel(kubectl: Kubectl, name: str, *, wait: bool, timeout: str | None) -> int:
    """Ask for a task to be stopped; with `wait`, see that it is."""
    patience = parse_seconds(timeout)
    found = resolve(kubectl, name, ("AgentTask",))
    phase = found.object.get("status", {}).get("phase")
    if phase != "Cancelled":
        space = str(found.object["metadata"]["namespace"])
        do(kubectl, lambda tasks: tasks.cancel(space, found.name), seen=found.object)
    if wait:
        code = follow(kubectl, found.name, timeout=patience, as_json=False)
        return ExitCode.OK if code == ExitCode.CANCELLED else code
    say(f"agenttask/{found.name} {'is cancelled' if phase == 'Cancelled' else 'cancelling'}")
    return ExitCode.OK
