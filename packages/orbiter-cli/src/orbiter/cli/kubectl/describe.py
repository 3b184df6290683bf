"""`kubectl orbiter describe`: a task or a session told for people, with its Events."""

from datetime import UTC, datetime
from typing import Any

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import Found, resolve
from orbiter.cli.kubectl.watch import question_of
from orbiter.cli.ui.outcome import ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import (
    ago,
    facts_table,
    moment,
    one_line,
    seconds,
    spent,
)

_MOST_EVENTS = 15
_LONGEST_PROMPT = 600


def run_describe(kubectl: Kubectl, name: str) -> int:
    """Print everything there is to know."""
    found = resolve(kubectl, name)
    fields = f"involvedObject.kind={found.kind},involvedObject.name={found.name}"
    events = kubectl.list_all("events", f"--field-selector={fields}")
    uid = found.object["metadata"]["uid"]
    mine = [event for event in events if event["involvedObject"].get("uid") in (None, uid)]
    say(render(found, mine, datetime.now(UTC)))
    return ExitCode.OK


def render(found: Found, events: list[Object], now: datetime) -> str:
    """Everything there is to know, as it is printed."""
    tell = _task if found.kind == "AgentTask" else _session
    return "\n".join(
        (facts_table(tell(found.object, now)), _conditions(found, now), _events(events, now))
    )


def _task(task: Object, now: datetime) -> dict[str, Any]:
    spec, status = task["spec"], task.get("status", {})
    result, question = status.get("result", {}), question_of(task)
    started = moment(status.get("startTime"))
    runs = seconds((now - started).total_seconds()) if started else None
    return {
        "task": _identity(task),
        "phase": _phase(status),
        "message": status.get("message"),
        "question": question[1] if question else None,
        "answer it": f"kubectl orbiter answer {task['metadata']['name']} TEXT" * bool(question),
        "progress": status.get("progress"),
        "prompt": _prompt(spec),
        "agent": _agent({**spec.get("agent", {}), **(status.get("agent") or {})}),
        "profile": _profile(spec, status),
        "workspace": _workspace(spec.get("workspace", {})),
        "depends on": ", ".join(spec.get("dependsOn", [])),
        "one at a time": spec.get("concurrencyKey"),
        "limits": f"{_timeout(spec, status)} an attempt,"
        f" {spec.get('retry', {}).get('limit', 0)} further attempts",
        "created": ago(task["metadata"].get("creationTimestamp"), now),
        "duration": status.get("duration") or runs,
        "attempts": status.get("attempts"),
        "job, pod": ", ".join(filter(None, (status.get("jobName"), status.get("podName")))),
        "trace": status.get("traceId"),
        "spent": spent(status.get("usage", {})),
        "answers": "\n".join(_answer(each) for each in spec.get("input", [])),
        "cancelled by": spec.get("cancelledBy"),
        "summary": result.get("summary"),
        "commit": result.get("commitSHA"),
        "pull request": result.get("prURL"),
        "data": result.get("data"),
    }


def _answer(given: Object) -> str:
    by = one_line(given.get("by") or "")
    return f"{by}: {given['text']}" if by else str(given["text"])


def _session(session: Object, now: datetime) -> dict[str, Any]:
    spec, status = session["spec"], session.get("status", {})
    rotation, idle = spec.get("rotation", {}), spec.get("idle", {})
    persistence = spec.get("persistence", {})
    claim = persistence.get("persistentVolumeClaim", {}).get("claimName", "")
    begins = [f"{seconds(rotation.get('afterIdleSeconds', 1800))} without a message"]
    begins.append(f"{rotation.get('maxTokens', 100000):,} tokens")
    if "topicSimilarity" in rotation:
        begins.append(f"another topic (below {rotation['topicSimilarity']})")
    begins += rotation.get("commands", [])
    return {
        "session": _identity(session),
        "phase": _phase(status),
        "user": spec.get("userId"),
        "agent": _agent(spec.get("agent", {})),
        "profile": _profile(spec, status, "it wakes"),
        "wanted": spec.get("operatingMode", "Running"),
        "sleeps after": f"{seconds(idle.get('scaleToZeroAfterSeconds', 900))} without a message",
        "begins anew after": ", ".join(begins),
        "streaming": spec.get("streaming", "Disabled"),
        "persistence": f"{persistence.get('type', 'Snapshot')} {claim}",
        "present session": status.get("sessionId"),
        "input stream": status.get("inputStream"),
        "output stream": status.get("outputStream"),
        "pods wanted": status.get("replicas", 0),
        "messages waiting": status.get("pendingMessages", 0),
        "messages answered": status.get("turns", 0),
        "last activity": ago(status.get("lastActivityTime"), now),
        "created": ago(session["metadata"].get("creationTimestamp"), now),
        "spent": spent(status.get("usage", {})),
    }


def _identity(found: Object) -> str:
    return f"{found['metadata']['name']} in namespace {found['metadata']['namespace']}"


def _phase(status: Object) -> str:
    reason = status.get("reason")
    return f"{status.get('phase', 'Pending')}{f' ({reason})' if reason else ''}"


def _prompt(spec: Object) -> str:
    if "promptFrom" in spec:
        key = spec["promptFrom"]["configMapKeyRef"]
        return f"key {key['key']} of ConfigMap {key['name']}"
    text: str = spec.get("prompt", "").strip()
    return text if len(text) <= _LONGEST_PROMPT else text[:_LONGEST_PROMPT] + "…"


def _agent(agent: Object) -> str:
    secret = agent.get("credentialsSecretRef", {}).get("name")
    way = agent.get("auth", {}).get("type")
    parts = [agent.get("type", "claude"), agent.get("model"), way, secret and f"Secret {secret}"]
    return ", ".join(part for part in parts if part)


def _timeout(spec: Object, status: Object) -> str:
    profiled = status.get("profile") or spec.get("profileRef")
    own = spec.get("timeoutSeconds", None if profiled else 1800)
    return seconds(own) if own is not None else "the profile's time for"


def _profile(spec: Object, status: Object, moment: str = "the first attempt begins") -> str | None:
    """Which profile it has begun with, or waits for."""
    if used := status.get("profile"):
        kept = f"as it was at generation {used.get('generation')}"
        if base := used.get("base"):
            kept += f", over ClusterAgentProfile {base.get('name')}"
        return f"{_named(used)}, {kept} (ControllerRevision {used.get('revision')})"
    reference = spec.get("profileRef") or {}
    return f"{_named(reference)}, read when {moment}" if reference else None


def _named(profile: Object) -> str:
    of_cluster = profile.get("kind") == "ClusterAgentProfile"
    return f"{'cap/' * of_cluster}{profile.get('name')}"


def _workspace(workspace: Object) -> str:
    if git := workspace.get("git"):
        ref = git.get("ref", "its default branch")
        push = (
            f", commits pushed to {git.get('branch', ref)}" if git.get("push") == "Always" else ""
        )
        return f"{git['url']} at {ref}{push}"
    claim = workspace.get("persistentVolumeClaim", {}).get("claimName")
    return f"PersistentVolumeClaim {claim}" if claim else "an empty directory"


def _conditions(found: Found, now: datetime) -> str:
    conditions = found.object.get("status", {}).get("conditions", [])
    rows = {
        f"  {each['type']}": f"{each['status']} ({each['reason']}), since"
        f" {ago(each.get('lastTransitionTime'), now).removesuffix(' ago')}:"
        f" {one_line(each.get('message', ''), 300)}"
        for each in conditions
    }
    return f"\nconditions\n{facts_table(rows)}" if rows else ""


def _events(events: list[Object], now: datetime) -> str:
    def when(event: Object) -> str:
        return str(event.get("lastTimestamp") or event.get("eventTime") or "")

    lines = [
        f"  {ago(when(event), now):>12}  {one_line(event.get('type') or ''):<7}"
        f"  {one_line(event.get('reason') or '')}:"
        f" {one_line(event.get('message') or event.get('note') or '', 300)}"
        for event in sorted(events, key=when)[-_MOST_EVENTS:]
    ]
    return "\nevents\n" + ("\n".join(lines) if lines else "  none (they are kept for an hour)")
