"""`kubectl orbiter retry`: a new task from one that has ended."""

import json

import typer

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import Found, parse, resolve
from orbiter.cli.kubectl.watch import ENDED, follow
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say

_OWN = ("desiredState", "cancelledBy", "input", "resumeFrom")
"""What was said to that task alone."""
_LONGEST_PREFIX = 56
"""The API server adds five characters to a name that it makes, of 63 at most."""


def run_retry(
    kubectl: Kubectl,
    name: str,
    new_name: str | None,
    timeout: str | None,
    *,
    resume: bool,
    max_cost: float | None,
    wait: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create the new task, and follow it if that is wanted."""
    patience = parse_seconds(timeout)
    found = resolve(kubectl, name, ("AgentTask",))
    manifest = build_retry(found, new_name, resume=resume, max_cost=max_cost)
    if dry_run:
        typer.echo(json.dumps(manifest, indent=None if as_json else 2))
        return ExitCode.OK
    created = kubectl.create(manifest)
    made = created["metadata"]["name"]
    say(json.dumps(created) if as_json and not wait else f"agenttask/{made} created", err=wait)
    if wait:
        return follow(kubectl, made, timeout=patience, as_json=as_json)
    return ExitCode.OK


def build_retry(
    found: Found, new_name: str | None, *, resume: bool, max_cost: float | None
) -> Object:
    """Return the manifest of the new task.

    Args:
        found: The task that has ended.
        new_name: What the new one is called; made of the old name when None.
        resume: Whether it goes on with the old one's conversation and workspace.
        max_cost: US dollars that it may spend, beside what the old one has.

    Raises:
        CommandError: The task has not ended, or left nothing to go on from.
    """
    status = found.object.get("status", {})
    if status.get("phase") not in ENDED:
        raise CommandError(
            f"task {found.name} is {status.get('phase', 'Pending')}: only one that has ended can be"
            f" tried again; `kubectl orbiter cancel {found.name}` ends it"
        )
    if resume and (not status.get("checkpoint") or status.get("phase") == "Completed"):
        raise CommandError(
            f"task {found.name} has no checkpoint to go on from; without --resume it begins anew"
        )
    spec = {key: value for key, value in found.object["spec"].items() if key not in _OWN}
    if max_cost is not None:
        spec["agent"] = {**spec.get("agent", {}), "maxCostUSD": max_cost}
    if resume:
        spec["resumeFrom"] = found.name
    prefix = found.name[:_LONGEST_PREFIX].rstrip("-.")
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": {"name": parse(new_name)[1]} if new_name else {"generateName": f"{prefix}-"},
        "spec": spec,
    }
