"""`kubectl orbiter submit`: an AgentTask from a prompt and a few options."""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

import typer

from orbiter.cli.agent.agent_types import AGENT_TYPES, UNKNOWN_TYPE
from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import parse
from orbiter.cli.kubectl.watch import follow
from orbiter.cli.ui.input import given_or_read, parse_seconds
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say

_LONGEST_SLUG = 40
_DEFAULT_PROFILE = "default"
_CLUSTER = "cap"
_PROFILES = {
    **dict.fromkeys(("", "ap", "agentprofile", "agentprofiles"), "AgentProfile"),
    **dict.fromkeys(
        (_CLUSTER, "clusteragentprofile", "clusteragentprofiles"), "ClusterAgentProfile"
    ),
}
"""The words before a profile's name, as kubectl has them, and the kind that each means."""


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
    unsaid = options.agent is None and options.profile is None and not dry_run
    if unsaid:
        options = replace(options, profile=_default_profile(kubectl))
    manifest = build_task(given_or_read(prompt, "a prompt", file), options)
    if dry_run:
        typer.echo(_shown(manifest, as_json=as_json))
        return ExitCode.OK
    created = kubectl.create(manifest)
    name = created["metadata"]["name"]
    if wait:
        say(f"agenttask/{name} created", err=True)
        return follow(kubectl, name, timeout=patience, as_json=as_json)
    say(json.dumps(created) if as_json else f"agenttask/{name} created")
    return ExitCode.OK


def _default_profile(kubectl: Kubectl) -> str | None:
    """The profile of tasks that name none, if any: it may not let us say `claude` for it."""
    for plural, prefix in (("agentprofiles", ""), ("clusteragentprofiles", f"{_CLUSTER}/")):
        words = ("get", f"{plural}.orbiter.dev", _DEFAULT_PROFILE, "-o", "name")
        try:
            if kubectl.run(*words, "--ignore-not-found").strip():
                return f"{prefix}{_DEFAULT_PROFILE}"
        except CommandError:
            continue  # An installation without profiles, or no right to read them: as ever.
    return None


def build_task(prompt: str, options: TaskOptions) -> Object:
    """Return the manifest of a task.

    Raises:
        CommandError: The options contradict each other, or a duration is none.
    """
    name = parse(options.name)[1] if options.name is not None else None
    identity = {"name": name} if name else {"generateName": f"{slug(prompt)}-"}
    spec = {
        "prompt": prompt,
        "profileRef": _profile_ref(options.profile) if options.profile else None,
        "agent": _agent(options),
        "workspace": _workspace(options),
        "timeoutSeconds": parse_seconds(options.timeout),
        "retry": None if options.retries is None else {"limit": options.retries},
        "ttlSecondsAfterFinished": parse_seconds(options.ttl),
        "dependsOn": [parse(each)[1] for each in options.depends_on],
        "concurrencyKey": options.concurrency_key,
        "projectId": options.project,
    }
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentTask",
        "metadata": identity,
        "spec": _given(spec),
    }


def slug(prompt: str) -> str:
    """Make the beginning of a name from the beginning of a prompt.

    >>> slug("Fix the login page, please: it is blank")
    'fix-the-login-page-please-it-is-blank'
    >>> slug("修理")
    'task'
    """
    name = ""
    for word in re.findall(r"[a-z0-9]+", prompt.lower()):
        longer = f"{name}-{word}" if name else word[:_LONGEST_SLUG]
        if len(longer) > _LONGEST_SLUG:
            break
        name = longer
    return name or "task"


def _profile_ref(profile: str) -> Object:
    word, _, name = profile.rpartition("/")
    kind = _PROFILES.get(word.lower().removesuffix(".orbiter.dev"))
    if kind is None:
        words = "write NAME for an AgentProfile, or cap/NAME for a ClusterAgentProfile"
        raise CommandError(f"--profile {profile}: {words}", ExitCode.USAGE)
    named = {"name": parse(name)[1]}
    return named if kind == "AgentProfile" else {"kind": kind, **named}


def _agent(options: TaskOptions) -> Object:
    kind = options.agent or (None if options.profile else "claude")
    if kind is not None and kind not in AGENT_TYPES:
        raise CommandError(f"--agent {kind}: {UNKNOWN_TYPE}", ExitCode.USAGE)
    secret = options.credentials
    if secret is None and kind is not None:
        secret = f"{kind}-credentials"
    return _given(
        {
            "type": kind,
            "model": options.model,
            "maxTurns": options.max_turns,
            "maxCostUSD": options.max_cost,
            "systemPrompt": options.system_prompt,
            "credentialsSecretRef": {"name": secret} if secret else None,
        }
    )


def _workspace(options: TaskOptions) -> Object | None:
    git = _given(
        {
            "url": options.git_url,
            "ref": options.git_ref,
            "branch": options.git_branch,
            "push": "Always" if options.push else None,
            "credentialsSecretRef": (
                {"name": options.git_credentials} if options.git_credentials else None
            ),
        }
    )
    if git and not options.git_url:
        raise CommandError("--git-url is missing: the other git options need it", ExitCode.USAGE)
    return {"git": git} if git else None


def _given(fields: dict[str, Any]) -> Object:
    """Leave out what was not given."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def _shown(manifest: Object, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(manifest)
    import yaml

    return yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True).rstrip()
