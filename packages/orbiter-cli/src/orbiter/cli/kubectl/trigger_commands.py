"""`kubectl orbiter trigger`: its two commands."""

from typing import Annotated

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.options import AsJson, Timeout
from orbiter.cli.kubectl.scope import scoped

app = typer.Typer(help="Send an event to an AgentTrigger by hand.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="An AgentTrigger.")]
Payload = Annotated[
    str,
    typer.Option("-f", "--file", help="The event's body, as its sender would send it, as JSON."),
]
Event = Annotated[
    str | None,
    typer.Option("--event", help="GitHub's name of the event; by the payload when absent."),
]
Delivery = Annotated[
    str | None,
    typer.Option("--delivery", help="How the delivery is called; the same twice is one event."),
]


@app.command("run")
@scoped
def run(
    kubectl: Kubectl,
    name: Name,
    file: Payload,
    event: Event = None,
    delivery: Delivery = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Send an event that counts; filters and limits hold for it as for any other."""
    from orbiter.cli.kubectl.trigger import Sending, run_trigger

    sending = Sending(name, file, event=event, delivery=delivery, test=False)
    return run_trigger(kubectl, sending, timeout=timeout, as_json=as_json)


@app.command("test")
@scoped
def try_event(
    kubectl: Kubectl,
    name: Name,
    file: Payload,
    event: Event = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Ask what would become of an event; it makes no task."""
    from orbiter.cli.kubectl.trigger import Sending, run_trigger

    sending = Sending(name, file, event=event, delivery=None, test=True)
    return run_trigger(kubectl, sending, timeout=timeout, as_json=as_json)
