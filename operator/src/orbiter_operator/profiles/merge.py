"""What a task and its profiles say together, field by field. Pure.

One rule for every field: what only one of them says holds; what both say is the profile's, and a
task that says otherwise is refused, unless `allowOverrides` has the field. Two things are more than
a value: a limit may always be made smaller, and variables, MCP servers and skills are told apart by
their names. Receivers of notifications are only added to: nobody takes a profile's away.

A namespace's profile is to the cluster's what a task is to it. So a task is laid over the former
and both over the latter, and what one lets be said widens nothing that the other does not.
"""

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeVar

from orbiter_contracts.bounds import one_line
from orbiter_contracts.notify import MAX_SINKS, Sink, merged_sinks
from orbiter_operator.kube.models import Agent
from orbiter_operator.kube.names import WORKER
from orbiter_operator.pods.overlay import merge
from orbiter_operator.profiles.models import CLUSTER, Profile, ProfileAgent

_NAMED = ("env", "mcp_servers", "skills")
_LIMITS = ("max_turns", "max_cost_usd", "timeout_seconds")
_WORKERS_ENV = f"podTemplate.spec.containers[{WORKER}].env"
_SHOWN = 60


class HasAgent(Protocol):
    """The spec of an object that an agent works for, or of a profile.

    One with `timeout_seconds` may have it of its profile; a session's messages say their own.
    """

    @property
    def agent(self) -> Agent | ProfileAgent: ...  # noqa: D102
    @property
    def notify(self) -> tuple[Sink, ...]: ...  # noqa: D102
    @property
    def pod_template(self) -> dict[str, Any] | None: ...  # noqa: D102
    @property
    def model_fields_set(self) -> set[str]: ...  # noqa: D102
    def model_copy(self, *, update: dict[str, Any]) -> Self: ...  # noqa: D102


S = TypeVar("S", bound=HasAgent)


def with_profile(spec: S, profile: Profile) -> tuple[S, str | None]:
    """The spec with what its profile says, and what that one is laid over.

    Args:
        spec: As its object says it. Its podTemplate can be merged (`pods.rules.shape_error`).
        profile: One without an error, and its base too.

    Returns:
        Both together and None, or the spec as it was and what it may not say. The podTemplate of
        the cluster's profile is not in it: that one is laid beneath (`Profile.fixed_template`).
    """
    found, why = _over(spec, profile)
    if why is None and profile.base is not None:
        found, why = _over(found, profile.base)
    return (found, None) if why is None else (spec, why)


def clash(profile: Profile, base: Profile) -> str | None:
    """What a namespace's profile says that the cluster's does not let it; None when nothing."""
    return _over(profile.spec, base)[1]


def _over(spec: S, profile: Profile) -> tuple[S, str | None]:
    rules, own = profile.spec, spec.agent
    agent: dict[str, Any] = {}
    problems: list[str] = []
    for name, field in ProfileAgent.model_fields.items():
        theirs, alias = getattr(rules.agent, name), field.alias or name
        if name in _NAMED:
            agent[name] = _together(theirs, getattr(own, name))
            if not rules.lets(alias):
                problems += _changed(f"agent.{alias}", theirs, getattr(own, name))
        elif theirs is not None:
            mine = getattr(own, name) if name in own.model_fields_set else None
            agent[name], differs = _chosen(name, mine, theirs)
            if differs and not rules.lets(alias):
                problems.append(f"agent.{alias} is {_words(mine)}")
    told = merged_sinks((*rules.notify, *spec.notify))
    if len(told) > MAX_SINKS:
        return spec, (
            f"spec.notify: {len(told)} receivers with those of {profile.title}, {MAX_SINKS} at "
            "most; leave some out"
        )
    more: dict[str, Any] = {"agent": own.model_copy(update=agent), "notify": told}
    if rules.timeout_seconds is not None and hasattr(spec, "timeout_seconds"):
        said = "timeout_seconds" in spec.model_fields_set
        mine = spec.timeout_seconds if said else None
        more["timeout_seconds"], differs = _chosen("timeout_seconds", mine, rules.timeout_seconds)
        if differs and not rules.lets("timeoutSeconds"):
            problems.append(f"timeoutSeconds is {_words(mine)}")
    if not rules.lets("env"):
        # There a variable counts more than one of `agent.env`.
        problems += _changed(_WORKERS_ENV, rules.agent.env, _workers_env(spec.pod_template))
    if rules.pod_template is not None:
        both = merge(rules.pod_template, spec.pod_template or {}, nulls=True)
        differs = both != rules.pod_template
        more["pod_template"] = both
        if profile.kind == CLUSTER:
            more["pod_template"] = spec.pod_template if differs else None
        if differs and not rules.lets("podTemplate"):
            problems.append("podTemplate is there")
    if problems:
        return spec, (
            f"spec.{problems[0]}: leave it out, or have {profile.title} let it be said "
            "(allowOverrides)"
        )
    return spec.model_copy(update=more), None


def _chosen(name: str, mine: Any, theirs: Any) -> tuple[Any, bool]:
    """The value that holds if it may, and whether that has to be allowed."""
    if mine is None or mine == theirs:
        return theirs, False
    return mine, not (name in _LIMITS and mine < theirs)


def _together(
    theirs: tuple[dict[str, Any], ...], mine: tuple[dict[str, Any], ...]
) -> tuple[dict[str, Any], ...]:
    """Those of the profile and behind them the task's, which replace others of their names."""
    names = {str(item.get("name")) for item in mine}
    return (*(item for item in theirs if str(item.get("name")) not in names), *mine)


def _workers_env(template: dict[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """The variables that a podTemplate, which can be merged, has for the worker."""
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return tuple(v for c in containers if c["name"] == WORKER for v in c.get("env") or ())


def _changed(
    where: str, theirs: tuple[dict[str, Any], ...], mine: tuple[dict[str, Any], ...]
) -> Iterator[str]:
    """What of the profile the task has with another value."""
    known = {str(item.get("name")): item for item in theirs}
    for item in mine:
        name = str(item.get("name"))
        if known.get(name, item) != item:
            yield f"{where}[{one_line(name, _SHOWN)}] is another than the profile's"


def _words(value: Any) -> str:
    """A value as people read it; of a reference the name, and not much of a long text."""
    source = getattr(value, "config_map_key_ref", None)
    named = getattr(value, "name", None) or getattr(source, "name", None)
    named = named or getattr(value, "type", None)
    return one_line(repr(named or value), _SHOWN)
