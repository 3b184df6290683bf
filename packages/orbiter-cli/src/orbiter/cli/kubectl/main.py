"""The commands of `kubectl orbiter`. Each loads what it needs when it is called."""

from typing import Annotated

import typer

from orbiter.cli.agent.agent_types import AGENT_TYPES
from orbiter.cli.kubectl import notify_commands, reports, trigger_commands
from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.options import (
    AnyName,
    AsJson,
    ConcurrencyKey,
    Credentials,
    DependsOn,
    DryRun,
    GitBranch,
    GitRef,
    GitSecret,
    MaxCost,
    MaxTurns,
    NewName,
    Profile,
    PromptFile,
    RedisUrl,
    Resume,
    SessionName,
    SystemPrompt,
    TaskName,
    TaskTimeout,
    Timeout,
    Ttl,
    Wait,
)
from orbiter.cli.kubectl.scope import remember, scoped

__all__ = ["main"]

app = typer.Typer(
    name="kubectl orbiter",
    # rich would double the time to the first line of --help
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.callback()(remember)


@app.command()
@scoped
def chat(
    kubectl: Kubectl,
    name: SessionName,
    once: Annotated[
        str | None,
        typer.Option(
            "--once",
            metavar="TEXT",
            help="Send one message, print the answer, leave. - reads it from stdin.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    timeout: Timeout = None,
    redis_url: RedisUrl = None,
) -> int:
    """Talk to a session. Its answers appear as they are written; /quit leaves."""
    from orbiter.cli.kubectl.chat import run_chat

    return run_chat(kubectl, name, once=once, as_json=as_json, timeout=timeout, redis_url=redis_url)


@app.command()
@scoped
def rotate(
    kubectl: Kubectl,
    name: SessionName,
    as_json: AsJson = False,
    timeout: Timeout = None,
    redis_url: RedisUrl = None,
) -> int:
    """Begin a new session: the agent starts afresh, without the old conversation."""
    from orbiter.cli.kubectl.rotate import run_rotate

    return run_rotate(kubectl, name, as_json=as_json, timeout=timeout, redis_url=redis_url)


@app.command()
@scoped
def submit(
    kubectl: Kubectl,
    prompt: Annotated[
        str | None,
        typer.Argument(metavar="[PROMPT]", help="What to do. - or nothing reads it from stdin."),
    ] = None,
    file: PromptFile = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The task's name; made of the prompt when absent."),
    ] = None,
    profile: Profile = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help=f"{', '.join(AGENT_TYPES)}; claude if absent.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Model the agent uses.")] = None,
    credentials: Credentials = None,
    system_prompt: SystemPrompt = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    git_url: Annotated[str | None, typer.Option("--git-url", help="Repository to work in.")] = None,
    git_ref: GitRef = None,
    git_branch: GitBranch = None,
    git_credentials: GitSecret = None,
    push: Annotated[bool, typer.Option("--push", help="Push the commits of a success.")] = False,
    task_timeout: TaskTimeout = None,
    retries: Annotated[int | None, typer.Option("--retries", help="Further attempts.")] = None,
    ttl: Ttl = None,
    depends_on: DependsOn = None,
    concurrency_key: ConcurrencyKey = None,
    project: Annotated[str | None, typer.Option("--project", help="Your project's id.")] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Hand in a task: an AgentTask with this prompt."""
    from orbiter.cli.kubectl.submit import TaskOptions, run_submit

    options = TaskOptions(
        name=name,
        profile=profile,
        agent=agent,
        model=model,
        credentials=credentials,
        system_prompt=system_prompt,
        max_turns=max_turns,
        max_cost=max_cost,
        git_url=git_url,
        git_ref=git_ref,
        git_branch=git_branch,
        git_credentials=git_credentials,
        push=push,
        timeout=task_timeout,
        retries=retries,
        ttl=ttl,
        depends_on=tuple(depends_on or ()),
        concurrency_key=concurrency_key,
        project=project,
    )
    return run_submit(
        kubectl, prompt, file, options, wait=wait, timeout=timeout, dry_run=dry_run, as_json=as_json
    )


app.command()(scoped(reports.watch))


@app.command()
@scoped
def answer(
    kubectl: Kubectl,
    name: TaskName,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="The answer. - or nothing reads it from stdin."),
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> int:
    """Answer the question of a task that waits for input; it goes on with that."""
    from orbiter.cli.kubectl.answer import run_answer

    return run_answer(kubectl, name, text, wait=wait, timeout=timeout, as_json=as_json)


@app.command()
@scoped
def cancel(kubectl: Kubectl, name: TaskName, wait: Wait = False, timeout: Timeout = None) -> int:
    """Stop a task for good."""
    from orbiter.cli.kubectl.cancel import run_cancel

    return run_cancel(kubectl, name, wait=wait, timeout=timeout)


@app.command()
@scoped
def retry(
    kubectl: Kubectl,
    name: TaskName,
    new_name: NewName = None,
    resume: Resume = False,
    max_cost: MaxCost = None,
    wait: Wait = False,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Make a new task from one that has ended."""
    from orbiter.cli.kubectl.retry import run_retry

    return run_retry(
        *(kubectl, name, new_name, timeout),
        resume=resume, max_cost=max_cost, wait=wait, dry_run=dry_run, as_json=as_json,
    )  # fmt: skip


@app.command()
@scoped
def logs(
    kubectl: Kubectl,
    name: AnyName,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new lines.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", help="Which attempt of a task; the latest if absent.")
    ] = None,
    tail: Annotated[int | None, typer.Option("--tail", help="Only the last lines.")] = None,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="Of the container before the last restart.")
    ] = False,
) -> int:
    """Print the log of the worker of a task or a session."""
    from orbiter.cli.kubectl.logs import run_logs

    return run_logs(kubectl, name, follow=follow, attempt=attempt, tail=tail, previous=previous)


app.add_typer(notify_commands.app, name="notify")
app.add_typer(trigger_commands.app, name="trigger")
for report in reports.COMMANDS:
    app.command()(scoped(report))


@app.command()
@scoped
def describe(kubectl: Kubectl, name: AnyName) -> int:
    """Tell everything there is to know about a task or a session."""
    from orbiter.cli.kubectl.describe import run_describe

    return run_describe(kubectl, name)


def main() -> None:
    """Run the plugin; the process ends with one of ExitCode."""
    app()
