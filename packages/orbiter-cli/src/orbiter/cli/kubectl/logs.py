"""`kubectl orbiter logs`: the log of the pod that works, or worked, for a task or a session."""

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import Found, Kind, resolve
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import Progress, say
from orbiter.cli.ui.text import moment
from orbiter.client.objects import FINAL as ENDED

LABELS: Final[dict[Kind, str]] = {
    "AgentTask": "orbiter.dev/agenttask",
    "POSession": "orbiter.dev/posession",
}
ATTEMPT: Final = "orbiter.dev/attempt"
_ATTEMPT_NUMBER: Final = re.compile("[0-9]{1,9}")
_LOOK_AGAIN_SECONDS: Final = 0.5
_REDIS_KEEPS: Final = timedelta(days=7)
"""For how long transcripts are in Redis behind their last event."""


def run_logs(
    kubectl: Kubectl,
    name: str,
    *,
    follow: bool,
    attempt: int | None,
    tail: int | None,
    previous: bool,
) -> int:
    """Print the log; with `follow`, wait for the pod and go on until it ends."""
    found = resolve(kubectl, name)
    if attempt is not None and found.kind != "AgentTask":
        raise CommandError("--attempt is for tasks; a session has none", ExitCode.USAGE)
    progress = Progress()
    try:
        pod = _pod(kubectl, found, attempt)
        while follow and (pod is None or _waits(pod)) and not _over(found):
            progress.waiting(f"{_phase(found)}, no log yet")
            time.sleep(_LOOK_AGAIN_SECONDS)
            found = resolve(kubectl, found.reference)
            pod = _pod(kubectl, found, attempt)
    finally:
        progress.done()
    if pod is None:
        raise _no_pod(found, attempt)
    if found.kind == "AgentTask":
        begun = found.object.get("status", {}).get("attempts") or "?"
        number, pod_name = pod["metadata"]["labels"].get(ATTEMPT, "?"), pod["metadata"]["name"]
        say(f"attempt {number} of {begun}, pod {pod_name}", err=True)
    words = ["logs", pod["metadata"]["name"], "--container=worker"]
    words += ["--follow"] if follow else []
    words += ["--previous"] if previous else []
    words += [f"--tail={tail}"] if tail is not None else []
    if not kubectl.pass_through(*words):
        return ExitCode.OK
    if instead := _instead(found, attempt):  # an evicted pod may be there and have no log
        say(f"kubectl gave no log of pod {pod['metadata']['name']}{instead}", err=True)
    return ExitCode.FAILED


def newest(pods: Sequence[Object], attempt: int | None = None) -> Object | None:
    """The pod that counts: of the attempt, else of the latest one; the youngest of those."""
    chosen = [pod for pod in pods if attempt is None or _attempt(pod) == attempt]
    return max(
        chosen,
        key=lambda pod: (_attempt(pod), pod["metadata"]["creationTimestamp"]),
        default=None,
    )


def _pod(kubectl: Kubectl, found: Found, attempt: int | None) -> Object | None:
    # an earlier object of the same name has left pods too
    selector = f"{LABELS[found.kind]}={found.name}"
    uid = f"{LABELS[found.kind]}-uid"
    pods = [
        pod
        for pod in kubectl.list_all("pods", f"--selector={selector}")
        if pod["metadata"]["labels"].get(uid) in (None, found.object["metadata"]["uid"])
    ]
    return newest(pods, attempt)


def _attempt(pod: Object) -> int:
    label = str(pod["metadata"].get("labels", {}).get(ATTEMPT, 0))
    return int(label) if _ATTEMPT_NUMBER.fullmatch(label) else 0


def _waits(pod: Object) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return not any({"running", "terminated"} & each.get("state", {}).keys() for each in statuses)


def _phase(found: Found) -> str:
    return str(found.object.get("status", {}).get("phase", "Pending"))


def _over(found: Found) -> bool:
    return _phase(found) in (*ENDED, "InputRequired", "Asleep", "Waiting", "Suspended")


def _no_pod(found: Found, attempt: int | None) -> CommandError:
    if found.kind == "POSession":
        return CommandError(
            f"session {found.name} is {_phase(found)}: it has no pod and so no log; a message to it"
            " starts one",
            ExitCode.WAITING,
        )
    status, phase = found.object.get("status", {}), _phase(found)
    begun = int(status.get("attempts") or 0)
    if attempt is not None and attempt > begun:
        return CommandError(
            f"task {found.name} is {phase} and has begun {begun} attempts: there is no {attempt}",
            ExitCode.NOT_FOUND,
        )
    if not begun:
        why = status.get("message") or "it has not started"
        return CommandError(f"task {found.name} is {phase} and has no pod: {why}")
    which = f"attempt {attempt or begun} of task {found.name}"
    gone = f"the pod of {which} is gone, and its log with it; the task is {phase}"
    return CommandError(f"{gone}{_instead(found, attempt)}")


def _instead(found: Found, attempt: int | None) -> str:
    """Where to read what an agent said whose log is gone; empty when that is gone, too."""
    if found.kind != "AgentTask" or not _has_transcript(found.object.get("status", {})):
        return ""
    which = f" --attempt {attempt}" if attempt else ""
    return f"; what the agent said and did: kubectl orbiter transcript {found.reference}{which}"


def _has_transcript(status: Object) -> bool:
    if (status.get("transcript") or {}).get("store"):
        return True
    ended = moment(status.get("completionTime"))
    if ended is not None and datetime.now(UTC) - ended > _REDIS_KEEPS:
        return False
    # a worker has begun, and so has its transcript
    return bool(status.get("startTime"))
