"""`kubectl orbiter cancel`: stops a task for good."""

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.identity import username
from orbiter.cli.kubectl.references import RESOURCES, resolve
from orbiter.cli.kubectl.watch import ENDED, follow
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say


def run_cancel(kubectl: Kubectl, name: str, *, wait: bool, timeout: str | None) -> int:
    """Ask for a task to be stopped; with `wait`, see that it is."""
    patience = parse_seconds(timeout)
    found = resolve(kubectl, name, ("AgentTask",))
    phase = found.object.get("status", {}).get("phase")
    if phase in ENDED and phase != "Cancelled":
        raise CommandError(f"task {found.name} is {phase} already: there is nothing to cancel")
    if phase != "Cancelled":
        by = username(kubectl)
        change = {"desiredState": "Cancelled", **({"cancelledBy": by} if by else {})}
        kubectl.patch(RESOURCES["AgentTask"], found.name, {"spec": change}, how="merge")
    if wait:
        code = follow(kubectl, found.name, timeout=patience, as_json=False)
        return ExitCode.OK if code == ExitCode.CANCELLED else code
    say(f"agenttask/{found.name} {'is cancelled' if phase == 'Cancelled' else 'cancelling'}")
    return ExitCode.OK
