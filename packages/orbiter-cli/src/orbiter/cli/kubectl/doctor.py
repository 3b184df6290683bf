"""`kubectl orbiter doctor`: whether an installation is well, and what to do where it is not.

Each check looks at one thing, with the rights of whoever asks. What they may not see is said to be
unknown, and is no fault.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import typer

from orbiter.cli.kubectl.client import Kubectl, decode
from orbiter.cli.kubectl.doctor_installation import LABELS, of_installations, operators_leases
from orbiter.cli.kubectl.doctor_objects import differs, held, not_ready, reached_by, trouble_of
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import one_line

Verdict = Literal["ok", "FAIL", "?"]
CRDS: Final = (
    *("agenttasks.orbiter.dev", "posessions.orbiter.dev"),
    *("agentprofiles.orbiter.dev", "clusteragentprofiles.orbiter.dev"),
    *("agentbudgets.orbiter.dev", "agenttriggers.orbiter.dev"),
)
OLDEST: Final = (1, 30)
"""What the CRDs' rules and the admission policies need."""
_WORKERS: Final = "--selector=app.kubernetes.io/name=agent-worker"
_SECRETS: Final = ("orbiter-developer", "orbiter-redis")
_NOT_SERVED: Final = (
    "list the namespace in the chart's workers.namespaces, or give it the label of "
    "workers.namespaceSelector"
)
_TEAMS_RIGHTS: Final = "docs/security.md, “What a team's people may”,"
_CLOCK_SECONDS: Final = 60.0
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check came to.

    Attributes:
        check: Its name.
        verdict: Well, not well, or not to be seen from here.
        text: What was seen.
        next: What to do; empty where all is well.
    """

    check: str
    verdict: Verdict
    text: str
    next: str = ""


def run_doctor(kubectl: Kubectl, *, as_json: bool, redis_url: str | None) -> int:
    """Check an installation; the exit code is 1 when something is not well."""
    found = []
    began = time.monotonic()
    for finding in findings(kubectl, redis_url, datetime.now(UTC)):
        found.append(finding)
        if not as_json:
            say(line(finding))
    failed = sum(each.verdict == "FAIL" for each in found)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found]))
    else:
        unknown = sum(each.verdict == "?" for each in found)
        took = time.monotonic() - began
        say(f"{len(found)} checks in {took:.1f} s: {failed} failed, {unknown} could not be made")
    return ExitCode.FAILED if failed else ExitCode.OK


def line(finding: Finding) -> str:
    """A finding in a line, and its next step in another."""
    head = f"{finding.verdict:<4}  {finding.check:<9}  {one_line(finding.text, _SHOWN)}"
    return f"{head}\n{' ' * 17}-> {one_line(finding.next, _SHOWN)}" if finding.next else head


def findings(kubectl: Kubectl, redis_url: str | None, now: datetime) -> Iterator[Finding]:
    """Make all checks, each when it is asked for.

    Raises:
        CommandError: The API server cannot be reached: nothing else could be said.
    """
    yield _version(kubectl)
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("crds", partial(_crds, kubectl)),
        ("programs", partial(_programs, kubectl)),
        ("leader", partial(_leader, kubectl, now)),
        ("clock", partial(_clock, kubectl, now)),
        ("namespace", partial(_namespace, kubectl)),
        ("rights", partial(_rights, kubectl)),
        ("redis", partial(_redis, kubectl, redis_url)),
        ("workers", partial(_workers, kubectl)),
        ("work", partial(_work, kubectl)),
    )
    for name, check in checks:
        try:
            yield check()
        except CommandError as error:
            yield Finding(name, "?", str(error))


def _version(kubectl: Kubectl) -> Finding:
    said = decode(kubectl.run("version", "-o", "json")).get("serverVersion") or {}
    shown = one_line(str(said.get("gitVersion", "of no version")), 40)
    numbers = [str(said.get(part, "")).rstrip("+") for part in ("major", "minor")]
    if all(number.isdecimal() and len(number) < 5 for number in numbers):
        version = tuple(map(int, numbers))
        if version < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            return Finding("cluster", "FAIL", f"Kubernetes {shown}", f"it takes {wanted} or later")
    return Finding("cluster", "ok", f"Kubernetes {shown}")


def _crds(kubectl: Kubectl) -> Finding:
    printed = kubectl.run("get", "crd", *CRDS, "--ignore-not-found", "-o", "json")
    found = decode(printed, root=3).get("items", []) if printed.strip() else []
    names = {each["metadata"]["name"]: each for each in found}
    apply = "kubectl apply --server-side --force-conflicts -f crds"
    if missing := [name for name in CRDS if name not in names]:
        return Finding("crds", "FAIL", f"{' and '.join(missing)} not installed", apply)
    if why := differs(names[CRDS[0]]):
        return Finding("crds", "FAIL", why, f"{apply}, or use the command of the same release")
    return Finding("crds", "ok", " and ".join(CRDS))


def _programs(kubectl: Kubectl) -> Finding:
    """Operator, Redis and server, as far as the chart has made them."""
    programs = kubectl.list_all("deployments,statefulsets", LABELS, everywhere=True)
    with suppress(CommandError):  # without a right to see Leases they are those of the cluster
        programs = of_installations(programs, operators_leases(kubectl))
    operators = [each for each in programs if reached_by(each) == "operator"]
    if not operators:
        chart = "helm install orbiter helm/orbiter -n orbiter-system; helm/orbiter/README.md"
        return Finding("programs", "FAIL", "there is no operator", chart)
    wrong = [why for each in programs if (why := not_ready(each))]
    if not wrong:
        parts = ", ".join(sorted(f"{reached_by(each)}" for each in programs))
        where = one_line(operators[0]["metadata"]["namespace"], 63)
        return Finding("programs", "ok", f"{parts} ready in namespace {where}")
    where = operators[0]["metadata"]["namespace"]
    pods = kubectl.list_all("pods", LABELS, namespace=where)
    text = "; ".join([*wrong, *[said for pod in pods if (said := trouble_of(pod))][:1]])
    step = f"kubectl get pods -n {where}, kubectl logs -n {where} on what does not run"
    return Finding("programs", "FAIL", text, step)


def _leader(kubectl: Kubectl, now: datetime) -> Finding:
    active = []
    for lease in operators_leases(kubectl):
        holder, age, duration = held(lease, now)
        where = one_line(lease["metadata"]["namespace"], 63)
        wrong = "" if holder else "no operator is active"
        if holder and age is not None and age > duration + _CLOCK_SECONDS:
            wrong = f"{holder} was active until {age:.0f} s ago"
        if wrong:
            text = f"{wrong} in namespace {where}"
            return Finding("leader", "FAIL", text, "look at the operators' logs there")
        active.append(f"{holder} is active in namespace {where}")
    if active:
        return Finding("leader", "ok", ", ".join(active))
    return Finding("leader", "FAIL", "there is no Lease", "upgrade the chart, which makes it")


def _clock(kubectl: Kubectl, now: datetime) -> Finding:
    """The active operator writes its time every few seconds: it should be that of this machine."""
    ages = [age for each in operators_leases(kubectl) if (age := held(each, now)[1]) is not None]
    if not ages:
        return Finding("clock", "?", "no operator has said what time it is")
    if (age := min(ages)) < -_CLOCK_SECONDS:
        text = f"the cluster's clock is {-age:.0f} s ahead of this machine's"
        return Finding("clock", "FAIL", text, "set both by NTP: times in status and Events differ")
    return Finding("clock", "ok", "the cluster's and this machine's agree")


def _namespace(kubectl: Kubectl) -> Finding:
    where = kubectl.namespace()
    for secret in _SECRETS:
        if kubectl.run("get", "secret", secret, "--ignore-not-found", "-o", "name").strip():
            return Finding("namespace", "ok", f"workers may run in {one_line(where, 63)}")
    text = f"no worker can run in {one_line(where, 63)}: it has no Secret {_SECRETS[0]}"
    return Finding("namespace", "FAIL", text, _NOT_SERVED)


def _rights(kubectl: Kubectl) -> Finding:
    wanted = ("create agenttasks.orbiter.dev", "create posessions.orbiter.dev", "get pods/log")
    refused = []
    for right in wanted:
        try:
            kubectl.run("auth", "can-i", *right.split(), "--quiet")
        except CommandError:
            refused.append(right)
    text = f"you may not {', '.join(refused)}"
    if refused == ["get pods/log"]:  # who may work, and not look at logs, can be meant to
        return Finding("rights", "?", text, "for logs ask for Kubernetes' ClusterRole view, here")
    if refused:
        return Finding("rights", "FAIL", text, f"ask for what {_TEAMS_RIGHTS} gives, here")
    return Finding("rights", "ok", f"you may {', '.join(wanted)}")


def _redis(kubectl: Kubectl, redis_url: str | None) -> Finding:
    """Whether front ends reach it, over the same way as `kubectl orbiter chat`."""
    from orbiter.cli.kubectl.redis_forward import RedisForward, chat_access
    from orbiter.cli.ui.outcome import ended_by_signals

    known = ("", None) if redis_url else chat_access(kubectl)
    began = time.monotonic()
    try:
        with ended_by_signals(), RedisForward(kubectl, redis_url, lambda _: known) as forward:
            forward.redis.ping()
    except CommandError as error:
        if "(Forbidden)" in str(error):
            step = f"to talk to sessions ask for what {_TEAMS_RIGHTS} gives in Redis' namespace"
            return Finding("redis", "?", "you may not forward a port to it", step)
        step = "look at Redis' pod and its log, and at NetworkPolicies of your own"
        return Finding("redis", "FAIL", str(error), step)
    return Finding("redis", "ok", f"it answered after {time.monotonic() - began:.1f} s")


def _workers(kubectl: Kubectl) -> Finding:
    pods = kubectl.list_all("pods", _WORKERS)
    wrong = [said for pod in pods if (said := trouble_of(pod))]
    if wrong:
        step = "kubectl orbiter describe NAME says more; images: the chart's images.workers"
        text = wrong[0] + (f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else "")
        return Finding("workers", "FAIL", text, step)
    return Finding("workers", "ok", f"{len(pods)} pods of workers, none in trouble")


def _work(kubectl: Kubectl) -> Finding:
    """What waits because of the installation, not of its place in the line, or was not told."""
    from orbiter.cli.kubectl.doctor_objects import held_up_by, not_told

    items: list[dict[str, Any]] = kubectl.list_all("agenttasks.orbiter.dev")
    items += kubectl.list_all("posessions.orbiter.dev")
    held_up = [(each["metadata"]["name"], why) for each in items if (why := held_up_by(each))]
    if held_up:
        name, condition = held_up[0]
        text = f"{len(held_up)} wait, {name} because of {condition['reason']}"
        return Finding("work", "FAIL", text, str(condition.get("message", "")))
    if untold := not_told(kubectl.list_all("events")):
        return Finding("work", "FAIL", untold, "docs/notify.md; kubectl orbiter notify test NAME")
    return Finding("work", "ok", f"{len(items)} tasks and sessions, none held up")
