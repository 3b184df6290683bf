"""`kubectl orbiter submit`: an AgentTask from a prompt and a few options."""

import json
from dataclasses import dataclass

import typer
from pydantic import ValidationError

from orbiter.cli.agent.agent_types import AGENT_TYPES, UNKNOWN_TYPE
from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import parse
from orbiter.cli.kubectl.task_door import make
from orbiter.cli.kubectl.watch import follow
from orbiter.cli.ui.input import given_or_read, parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.client import NewTask
from orbiter.client.changes import slug as slug
from orbiter.client.changes import task_manifest

_PROFILES = {
    **dict.fromkeys(("", "ap", "agentprofile", "agentprofiles"), "profile"),
    **dict.fromkeys(("cap", "clusteragentprofile", "clusteragentprofiles"), "cluster_profile"),
}
"""The words before a profile's name, as kubectl has them, and which field each means."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What `submit` was given beside the prompt; None leaves a field to its default.

    Attributes:
        profile: Name of an AgentProfile, which then says what is not given here; `cap/NAME` is that
            of a ClusterAgentProfile.
        agent: Its type; None means the profile's, and claude without one.
        credentials: Name of the Secret; None means the profile's, and AGENT-credentials without a
            profile or where an agent is named; empty means none.
        timeout: Duration of one attempt, for instance `30m`; `ttl` is written the same way.
    """

    name: str | None = None
    profile: str | None = None
    agent: str | None = None
    model: str | None = None
    credentials: str | None = None
    system_prompt: str | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    git_url: str | None = None
    git_ref: str | None = None
    git_branch: str | None = None
    git_credentials: str | None = None
    push: bool = False
    timeout: str | None = None
    retries: int | None = None
    ttl: str | None = None
    depends_on: tuple[str, ...] = ()
    concurrency_key: str | None = None
    project: str | None = None


def run_submit(
    kubectl: Kubectl,
    prompt: str | None,
    file: str | None,
    options: TaskOptions,
    *,
    wait: bool,
    timeout: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create the task, and follow it if that is wanted."""
    patience = parse_seconds(timeout)
    new = build_task(given_or_read(prompt, "a prompt", file), options)
    if dry_run:
        typer.echo(_shown(task_manifest(new), as_json=as_json))
        return ExitCode.OK
    created = make(kubectl, lambda tasks: tasks.submit(new, namespace=kubectl.namespace()))
    name = created["metadata"]["name"]
    if wait:
        say(f"agenttask/{name} created", err=True)
        return follow(kubectl, name, timeout=patience, as_json=as_json)
    say(json.dumps(created) if as_json else f"agenttask/{name} created")
    return ExitCode.OK


def build_task(prompt: str, options: TaskOptions) -> NewTask:
    """Return what is wanted.

    Raises:
        CommandError: The options contradict each other, or one cannot be meant.
    """
    kind, profile = _profile(options.profile)
    if options.agent is not None and options.agent not in AGENT_TYPES:
        raise CommandError(f"--agent {options.agent}: {UNKNOWN_TYPE}", ExitCode.USAGE)
    wanted = {
        "prompt": prompt,
        "name": parse(options.name)[1] if options.name is not None else None,
        kind: profile,
        "agent": options.agent,
        "model": options.model,
        "credentials": options.credentials,
        "system_prompt": options.system_prompt,
        "max_turns": options.max_turns,
        "max_cost_usd": options.max_cost,
        "git": _git(options),
        "timeout_seconds": parse_seconds(options.timeout),
        "retries": options.retries,
        "ttl_seconds": parse_seconds(options.ttl),
        "depends_on": [parse(each)[1] for each in options.depends_on],
        "concurrency_key": options.concurrency_key or None,
        "project_id": options.project or None,
    }
    try:
        return NewTask.model_validate(wanted)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise CommandError(f"{where}: {problem['msg']}", ExitCode.USAGE) from None


def _profile(profile: str | None) -> tuple[str, str | None]:
    word, _, name = (profile or "").rpartition("/")
    kind = _PROFILES.get(word.lower().removesuffix(".orbiter.dev"))
    if kind is None:
        words = "write NAME for an AgentProfile, or cap/NAME for a ClusterAgentProfile"
        raise CommandError(f"--profile {profile}: {words}", ExitCode.USAGE)
    return kind, parse(name)[1] if profile else None


def _git(options: TaskOptions) -> Object | None:
    named = {
        "ref": options.git_ref or None,
        "branch": options.git_branch or None,
        "credentials": options.git_credentials or None,
        "push": options.push,
    }
    if not options.git_url:
        if any(named.values()):
            words = "--git-url is missing: the other git options need it"
            raise CommandError(words, ExitCode.USAGE)
        return None
    return {"url": options.git_url, **named}


def _shown(manifest: Object, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(manifest)
    import yaml

    return yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True).rstrip()
