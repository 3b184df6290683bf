"""`kubectl orbiter retry`: a new task from one that has ended."""

import json

import typer

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import Found, parse, resolve
from orbiter.cli.kubectl.task_door import make
from orbiter.cli.kubectl.watch import follow
from orbiter.cli.ui.input import parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.client import ClientError
from orbiter.client.changes import retry_manifest


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
    meta = manifest["metadata"]
    space = str(found.object["metadata"]["namespace"])
    created = make(
        kubectl,
        lambda tasks: tasks.retry(
            space, found.name, new_name=meta.get("name"), resume=resume, max_cost_usd=max_cost
        ),
        seen=found.object,
    )
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
    name = parse(new_name)[1] if new_name else None
    try:
        return retry_manifest(found.object, name=name, resume=resume, max_cost_usd=max_cost)
    except ClientError as error:
        raise CommandError(str(error)) from error
