"""The commands of `kubectl orbiter` that tell how things stand; loaded when called, too."""

from typing import Annotated

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.options import (
    AnyName,
    AsJson,
    Endpoint,
    Everywhere,
    Plain,
    RedisUrl,
    StoreSecret,
    TaskName,
    Timeout,
)


def watch(
    kubectl: Kubectl,
    name: TaskName,
    timeout: Timeout = None,
    as_json: AsJson = False,
    plain: Plain = False,
    redis_url: RedisUrl = None,
) -> int:
    """Watch a task: what its agent says and does, and what came of it. Ctrl-C leaves it at work."""
    from orbiter.cli.kubectl.watch import run_watch

    return run_watch(
        kubectl, name, timeout=timeout, as_json=as_json, plain=plain, redis_url=redis_url
    )


def artifacts(
    kubectl: Kubectl,
    name: TaskName,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Which attempt; the latest if absent.")
    ] = None,
    fetch: Annotated[
        str | None,
        typer.Option("--fetch", metavar="DIR", help="Write the files to this directory."),
    ] = None,
    as_json: AsJson = False,
    redis_url: RedisUrl = None,
    endpoint: Endpoint = None,
    store_secret: StoreSecret = None,
) -> int:
    """List the files that were kept of a task's workspace, or fetch them."""
    from orbiter.cli.kubectl.artifacts import Wanted, run_artifacts

    wanted = Wanted(attempt, fetch, redis_url, endpoint, store_secret)
    return run_artifacts(kubectl, name, wanted, as_json=as_json)


def inbox(
    kubectl: Kubectl,
    everywhere: Everywhere = False,
    as_json: AsJson = False,
    redis_url: RedisUrl = None,
) -> int:
    """List what waits for a person, questions and approvals; at a terminal, answer it there."""
    from orbiter.cli.kubectl.inbox import run_inbox

    return run_inbox(kubectl, everywhere=everywhere, as_json=as_json, redis_url=redis_url)


def top(
    kubectl: Kubectl,
    everywhere: Everywhere = False,
    once: Annotated[
        bool, typer.Option("--once", help="Print it once and leave, as it does in a pipe.")
    ] = False,
    interval: Annotated[str, typer.Option("--interval", help="Time between two looks.")] = "2s",
) -> int:
    """Show the tasks that run and the sessions that are awake, with time, cost and tokens."""
    from orbiter.cli.kubectl.top import run_top

    return run_top(kubectl, everywhere=everywhere, once=once, interval=interval)


def doctor(kubectl: Kubectl, as_json: AsJson = False, redis_url: RedisUrl = None) -> int:
    """Check the installation, and this namespace: what is not well, and what to do."""
    from orbiter.cli.kubectl.doctor import run_doctor

    return run_doctor(kubectl, as_json=as_json, redis_url=redis_url)


def usage(kubectl: Kubectl, name: AnyName, as_json: AsJson = False) -> int:
    """Say what a session or a task has cost."""
    from orbiter.cli.kubectl.usage import run_usage

    return run_usage(kubectl, name, as_json=as_json)


def transcript(
    kubectl: Kubectl,
    name: AnyName,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", min=1, help="Which attempt of a task; the latest if absent."),
    ] = None,
    form: Annotated[str, typer.Option("-o", "--output", help="md or json.")] = "md",
    redis_url: RedisUrl = None,
    endpoint: Endpoint = None,
    store_secret: StoreSecret = None,
) -> int:
    """Print what an agent said and did: its words, its tools and what they answered."""
    from orbiter.cli.kubectl.transcript import run_transcript
    from orbiter.cli.kubectl.transcript_archive import Access

    access = Access(endpoint, store_secret)
    return run_transcript(
        kubectl, name, attempt=attempt, form=form, redis_url=redis_url, access=access
    )


def cost(
    kubectl: Kubectl,
    by: Annotated[
        str,
        typer.Option(
            "--by", help="namespace, agent, kind, day, label:KEY; up to four, with commas."
        ),
    ] = "namespace,agent",
    since: Annotated[
        str, typer.Option("--since", help="What was last active so long ago at most: 12h, 30d.")
    ] = "30d",
    form: Annotated[str, typer.Option("-o", "--output", help="table, csv or json.")] = "table",
    everywhere: Everywhere = False,
) -> int:
    """Sum up what tasks and sessions have cost, by team, agent, day or whatever labels say.

    \b
    kubectl orbiter cost                                       this namespace, by agent
    kubectl orbiter cost -A --by namespace,label:team          who has spent what
    kubectl orbiter cost -A --by day --since 7d                the last week, tasks only
    kubectl orbiter cost --by label:team -o csv > costs.csv    for a spreadsheet

    It sums the status of what you may list. A task counts when it ended, a session when it was
    last used, each with all it has cost. Costs are the agents' own word. Attempts that told none
    are counted under NO COST. What was deleted counts as far as AgentBudgets were charged for it.
    """  # noqa: D301 - of \b click makes a paragraph that it leaves as it is
    from orbiter.cli.kubectl.cost import run_cost

    return run_cost(kubectl, by=by, since=since, form=form, everywhere=everywhere)


def mcp(kubectl: Kubectl, redis_url: RedisUrl = None) -> int:
    """Serve tasks to an MCP client at stdin and stdout, as whoever runs it."""
    from orbiter.cli.kubectl.mcp import run_mcp

    return run_mcp(kubectl, redis_url)


COMMANDS = (inbox, top, artifacts, usage, cost, transcript, doctor, mcp)
"""In the order of `--help`, behind `logs`."""
