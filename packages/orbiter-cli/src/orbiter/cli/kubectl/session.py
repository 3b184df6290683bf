"""What a POSession's object says, as far as somebody who talks to it needs it."""

import time
from dataclasses import dataclass
from typing import Final

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.references import resolve
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import Progress
from orbiter.cli.ui.text import one_line

_NEW_SECONDS: Final = 10.0
_LOOK_AGAIN_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Session:
    """One POSession at one moment.

    Attributes:
        worker_id: Part of the streams' names; empty until the operator has seen the session.
        suspended: `spec.operatingMode` is Suspended: messages wait.
        unavailable_reason: Why it cannot answer, empty when nothing speaks against it.
        why: Why an answer takes its time, reason and sentence; empty when nothing is unusual.
        commands: Words that begin a new session.
    """

    name: str
    namespace: str
    user_id: int
    phase: str
    worker_id: str
    input_stream: str
    output_stream: str
    session_id: str
    suspended: bool
    unavailable_reason: str
    why: str
    commands: tuple[str, ...]

    @property
    def hint(self) -> str:
        """`why` as far as it fits into what is shown beside something else."""
        return one_line(self.why, 80)

    def check(self) -> None:
        """Refuse to send what nobody would answer.

        Raises:
            CommandError: It is suspended, has failed, or is unknown to the operator.
        """
        patch = f"kubectl -n {self.namespace} patch posession {self.name} --type=merge"
        if self.suspended:
            raise CommandError(
                f"session {self.name} is suspended: messages would wait; wake it with `{patch}"
                """ -p '{"spec":{"operatingMode":"Running"}}'`""",
                ExitCode.WAITING,
            )
        if self.unavailable_reason:
            raise CommandError(
                f"session {self.name} cannot answer: {self.unavailable_reason};"
                f" `kubectl orbiter describe pos/{self.name}` says more"
            )
        if not self.input_stream:
            raise CommandError(
                f"session {self.name} has no status yet: is the operator running?"
                " `kubectl get pods -A -l app.kubernetes.io/component=operator`",
                ExitCode.UNREACHABLE,
            )


def read_session(found: Object) -> Session:
    """Read a POSession's object."""
    spec, status = found["spec"], found.get("status", {})
    worker_id = str(status.get("workerId", ""))
    return Session(
        name=found["metadata"]["name"],
        namespace=found["metadata"]["namespace"],
        user_id=spec["userId"],
        phase=status.get("phase", ""),
        worker_id=worker_id,
        input_stream=status.get("inputStream", ""),
        output_stream=status.get("outputStream", ""),
        session_id=status.get("sessionId", ""),
        suspended=spec.get("operatingMode") == "Suspended",
        unavailable_reason=_unavailable_reason(status),
        why=_why(status),
        commands=tuple(spec.get("rotation", {}).get("commands", ("/new",))),
    )


def find_session(kubectl: Kubectl, name: str) -> Session:
    """Read the session that is meant.

    Raises:
        CommandError: There is none.
    """
    return read_session(resolve(kubectl, name, ("POSession",)).object)


def taken_up(kubectl: Kubectl, name: str, progress: Progress) -> Session:
    """Read the session that is meant; a new one may need a moment until its streams exist."""
    progress.start()
    session = find_session(kubectl, name)
    while (
        not (session.input_stream or session.unavailable_reason) and progress.elapsed < _NEW_SECONDS
    ):
        progress.waiting("waiting for the operator…")
        time.sleep(_LOOK_AGAIN_SECONDS)
        session = find_session(kubectl, name)
    progress.done()
    return session


def _unavailable(status: Object) -> tuple[str, str]:
    """Reason and sentence of the condition Available when it is False, else two empty texts."""
    for each in status.get("conditions", []):
        if each["type"] == "Available" and each["status"] == "False":
            return each["reason"], each.get("message", "").rstrip(".")
    return "", ""


def _unavailable_reason(status: Object) -> str:
    reason, message = _unavailable(status)
    if status.get("phase") != "Failed" and not reason.startswith("Duplicate"):
        return ""
    return f"{message or 'it has failed'} ({reason or 'Failed'})"


def _why(status: Object) -> str:
    reason, message = _unavailable(status)
    return one_line(f"{reason}: {message}", 500) if reason else ""
