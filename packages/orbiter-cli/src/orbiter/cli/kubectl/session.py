"""What a POSession's object says, as far as somebody who talks to it needs it."""

from dataclasses import dataclass

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.kubectl.errors import CommandError, ExitCode
from orbiter.cli.kubectl.references import resolve


@dataclass(frozen=True, slots=True)
class Session:
    """One POSession at one moment.

    Attributes:
        worker_id: Part of the streams' names; empty until the operator has seen the session.
        suspended: `spec.operatingMode` is Suspended: messages wait.
        trouble: Why it cannot answer, empty when nothing speaks against it.
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
    trouble: str
    commands: tuple[str, ...]

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
        if self.trouble:
            raise CommandError(
                f"session {self.name} cannot answer: {self.trouble};"
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
        trouble=_trouble(status),
        commands=tuple(spec.get("rotation", {}).get("commands", ("/new",))),
    )


def find_session(kubectl: Kubectl, name: str) -> Session:
    """Read the session that is meant.

    Raises:
        CommandError: There is none.
    """
    return read_session(resolve(kubectl, name, ("POSession",)).object)


def _trouble(status: Object) -> str:
    """The sentence of the condition that keeps the session from answering."""
    conditions = status.get("conditions", [])
    twins = [each for each in conditions if each.get("reason") == "DuplicateUser"]
    if status.get("phase") == "Failed":
        bad = twins or [each for each in conditions if each.get("status") == "False"] or conditions
    else:
        bad = twins
    if not bad:
        return "it has failed" if status.get("phase") == "Failed" else ""
    return f"{bad[0].get('message', '').rstrip('.')} ({bad[0]['reason']})"
