"""An attempt: its message, its worker's environment and its agent's session. Pure.

An AgentTask is worked on in attempts, one after the other. The operator runs each in a Job,
`orbiter task run` in a process; what its worker is started with is the same, and is here. What its
output means is in `outcome`, whether another attempt follows in `retry`.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from orbiter_contracts.messages import DeveloperWorkerInput, GitWorkspace, Workspace
from orbiter_contracts.queues import ATTEMPT_FIELD, BARE, TASK_FIELD, Keys

OPERATOR: Final = "orbiter.dev/operator"
"""The value of an AgentTask's `spec.managedBy` that means the operator, as its absence does."""


class Attempt(NamedTuple):
    """Names one attempt.

    Attributes:
        task: Its AgentTask's `<namespace>/<name>`.
        uid: Its AgentTask's uid.
        number: Which one it is, counted from 1.
        keys: Where in Redis it is.
    """

    task: str
    uid: str
    number: int
    keys: Keys = BARE

    @property
    def record(self) -> str:
        """Key of the hash that says where it stands."""
        return self.keys.attempt_record(self.uid, self.number)

    @property
    def checkpoint(self) -> str:
        """Key of the parts of its checkpoints."""
        return self.keys.attempt_checkpoint(self.uid, self.number)

    @property
    def routing(self) -> dict[str, str]:
        """Fields of its entry, beside the message, that say whose it is."""
        return {TASK_FIELD: self.task, ATTEMPT_FIELD: str(self.number)}

    def message(
        self,
        prompt: str,
        timeout_seconds: int,
        *,
        request: str | None = None,
        task_id: str | None = None,
        project_id: str | None = None,
        git: GitWorkspace | None = None,
        artifacts: Iterable[str] = (),
        setup: str | None = None,
    ) -> DeveloperWorkerInput:
        """What its worker is told.

        Args:
            prompt: What the agent is told.
            timeout_seconds: How long it may take.
            request: The message's id; by default that of this attempt.
            task_id: What the user calls the task; by default `<namespace>/<name>`.
            project_id: What the user counts it to.
            git: The repository to work in.
            artifacts: Which files of the workspace are kept.
            setup: What is run in the workspace before the agent starts.
        """
        return DeveloperWorkerInput(
            request_id=request or request_id(self.uid, self.number),
            task_id=task_id or self.task,
            project_id=project_id,
            prompt=prompt,
            timeout=timeout_seconds,
            workspace=Workspace(git=git, setup=setup) if git or setup else None,
            artifacts=list(artifacts),
        )

    def environment(self, *, worker: str, entry: str, session: str) -> dict[str, str]:
        """The variables that tell a worker that it is this attempt's.

        Args:
            worker: Its id.
            entry: Id of the attempt's entry on the developer input stream.
            session: The agent's session, see `session_of`.
        """
        prefix = {"KEY_PREFIX": self.keys.prefix} if self.keys.prefix else {}
        return prefix | {
            "WORKER_ID": worker,
            "WORKER_TYPE": "developer",
            "TASK_ENTRY_ID": entry,
            "TASK_RECORD": self.record,
            "TASK_NAME": self.task,
            "TASK_ATTEMPT": str(self.number),
            "SESSION_ID": session,
            "SNAPSHOT_KEY": self.keys.task_snapshot(self.uid),
        }


@lru_cache(maxsize=1024)
def request_id(uid: str, attempt: int) -> str:
    """Id of an attempt's message; the same however often it is computed."""
    return str(uuid5(NAMESPACE_URL, f"orbiter:{uid}:{attempt}"))


def session_of(request: str, answered: Iterable[str]) -> str:
    """The agent's session in an attempt: a new one, but after a question that of who asked first.

    A failed attempt's session is not gone on with: nothing of it was kept, and an agent refuses to
    begin a second session of the same id.

    Args:
        request: Id of the attempt's message, a UUID as the agents want it.
        answered: Ids of the messages whose attempts have asked something that was answered, in
            their order.
    """
    return next(iter(answered), request)
