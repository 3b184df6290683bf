"""How a pod goes on with an attempt that an earlier one was stopped in.

The newest checkpoint says what was paid, whatever becomes of its parts. The work goes on from it;
from the one before where it is damaged; and from the beginning where there is none to go on from.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orbiter_contracts import Checkpoint, Usage
from worker_wrapper.agents.base import Session
from worker_wrapper.logging import Log
from worker_wrapper.queue.checkpoints import Checkpoints, DamagedError, Stored
from worker_wrapper.session.archive import UnreadableError
from worker_wrapper.session.copies import SessionCopies

if TYPE_CHECKING:
    from worker_wrapper.workspace.contents import Contents

_SAID_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier pods of the attempt have left.

    Attributes:
        spent: The newest checkpoint: what the attempt has cost. None in the first pod.
        resumed: The one to go on from; None to begin from the beginning.
        workspace: What was kept of the workspace, checked; None when nothing differed.
        warnings: What people should know.
    """

    spent: Checkpoint | None = None
    resumed: Stored | None = None
    workspace: "Contents | None" = None
    warnings: list[str] = field(default_factory=list)

    def anew(self, why: str) -> "Earlier":
        """The same, but that the work begins from the beginning."""
        warning = f"the work begins from the beginning: {why}"
        return Earlier(self.spent, warnings=[*self.warnings, warning])


async def find_earlier(
    checkpoints: Checkpoints, copies: SessionCopies, *, resume: bool, log: Log
) -> Earlier:
    """Find out what there is to go on from.

    Args:
        checkpoints: Those of the attempt.
        copies: What reads the agent's conversation.
        resume: Whether work goes on, or begins anew (DISRUPTION_POLICY).
        log: Told what is found.

    Raises:
        RedisUnavailableError: Nobody can say.
    """
    # A session's worker keeps no workspace, and does not pay for what reads one.
    from worker_wrapper.workspace import contents

    try:
        newest = await checkpoints.newest()
    except DamagedError as error:
        log.warning("checkpoint_damaged", error=_said(error))
        return Earlier().anew(_said(error))
    if newest is None:
        return Earlier()
    earlier = Earlier(newest)
    if not resume:
        return earlier
    candidate: Checkpoint | None = newest
    while candidate is not None:
        if not candidate.resumable:
            return earlier.anew(_why_not(candidate))
        try:
            stored = await checkpoints.parts(candidate)
            await copies.check(stored.session)
            kept = contents.check(stored.workspace) if stored.workspace else None
        except (DamagedError, UnreadableError, contents.UnreadableError, OSError) as error:
            said = _said(error)
            warning = f"checkpoint {candidate.generation} was set aside: {said}"
            log.warning("checkpoint_damaged", generation=candidate.generation, error=said)
            earlier = Earlier(newest, warnings=[*earlier.warnings, warning])
            candidate = await checkpoints.earlier(candidate) if candidate is newest else None
            continue
        log.info("checkpoint_found", generation=candidate.generation, turns=newest.turns)
        return Earlier(newest, stored, kept, earlier.warnings)
    return earlier.anew("no checkpoint of it can be used")


async def put_back(stored: Stored, copies: SessionCopies, session_id: str) -> Session:
    """Give the agent its conversation back; what it costs from here on is counted from there.

    Raises:
        UnreadableError: It has changed since it was checked.
    """
    session = await copies.put_back(stored.session, session_id)
    totals = await copies.recorded(session) or session.totals or Usage()
    return Session(
        session.id, session.resumed, totals, session.agent_session_id, session.context_tokens
    )


def prompts(
    task: str, earlier: Earlier, note: str | None, *, files: bool = True
) -> tuple[str, str | None]:
    """What the agent is told, and what it is told when its CLI knows of no conversation.

    Args:
        task: The task's prompt.
        earlier: What there is to go on from.
        note: What happened, in the operator's word.
        files: Whether the files are kept, too.
    """
    if earlier.resumed is None:
        return task, None
    at = f"{earlier.resumed.checkpoint.time:%H:%M:%S} UTC"
    kept = "the conversation and the files are as they were"
    if not files:
        kept = "the conversation is as it was"
    line = (
        f"Your work was interrupted from outside{f' ({note})' if note else ''} and goes on in "
        f"another container: {kept} at {at}, processes "
        "that you had started are gone. Look at what is there, then go on with the task."
    )
    return line, f"{line}\n\n{task}"


def told_again(prompt: str) -> str:
    """A message that the conversation may have already, with what it had made the agent do."""
    return (
        "An earlier try to answer the message below was cut off from outside. The conversation and "
        "the files are as it left them, processes that it had started are gone. Look at what is "
        f"there, then go on.\n\n{prompt}"
    )


def _why_not(checkpoint: Checkpoint) -> str:
    if checkpoint.workspace == "TooLarge":
        return "what it had done was too large for a checkpoint"
    return "there was no copy of it yet"


def _said(error: Exception) -> str:
    return ascii(str(error)[:_SAID_CHARACTERS])[1:-1]
