"""What is kept of an attempt under way, so that its next pod goes on where this one was stopped.

`Checkpoint` stands in the attempt's record and says what there is; the agent's session and its
workspace themselves are beside it (`queues.checkpoint_of`), or in a store of the installation.
Written by `checkpoint_scripts`.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from orbiter_contracts.bounds import MAX_TIMEOUT_SECONDS, Cost, Count, Moment
from orbiter_contracts.envelope import InvalidMessageError, decode_json
from orbiter_contracts.message_base import Message
from orbiter_contracts.messages import Usage

DisruptionPolicy = Literal["Resume", "Restart", "Fail"]
"""What follows when the cluster stops an attempt's pod: it goes on from its checkpoint, it begins
anew in the same attempt, or the attempt has failed."""
CheckpointedWorkspace = Literal["Stored", "Unchanged", "TooLarge"]
"""`Stored`: what differs from the base commit, or all of it. `Unchanged`: nothing does, so nothing
is stored. `TooLarge`: it could not be stored, and the next pod begins from the beginning."""

CHECKPOINT_FIELD: Final = "checkpoint"
"""Field of an attempt's record: the `Checkpoint`'s JSON."""
CHECKPOINT_SECONDS: Final = 60
"""How often one is made while the agent works, unless CHECKPOINT_SECONDS says otherwise."""
MAX_CHECKPOINT_BYTES: Final = 1024 * 1024
"""The largest that Redis takes, session and workspace together: a larger value holds everybody up
while it is written."""
MAX_CHECKPOINT_JSON_BYTES: Final = 16 * 1024
"""The longest field of a record that is read as one."""
SUM_BYTES: Final = 32
"""What each part has in front of it: its SHA-256."""
MAX_PARTS_BYTES: Final = MAX_CHECKPOINT_BYTES + 2 * SUM_BYTES
"""The most that the parts of one take in Redis; what is longer nobody of ours has written."""
MAX_GENERATION: Final = 10_000_000
"""The last generation of an attempt, several for each second of the longest. One behind it is
forged and as damaged; behind the last one the count begins anew, so that none ends the saving."""
CommitId = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
"""Nothing else: it becomes an argument of git, which takes `--upload-pack=COMMAND` there too."""


class Checkpoint(Message):
    """What was kept of an attempt, and what the attempt had cost by then.

    Attributes:
        time: When it was made.
        generation: Counts the checkpoints of an attempt from 1, over all its pods.
        turns: How often the model was asked, in all pods of the attempt together.
        cost_usd: What that cost, in US dollars, as far as the agent told.
        usage: Both, with the tokens; None when the agent has told nothing.
        workspace: What was kept of the workspace; None when there was none yet.
        session: Whether the agent's session was kept.
        size_bytes: Size of both, compressed.
        base_commit: Commit that a git workspace differs from; None for any other.
        disruption: Whether it is the last one of a pod that was told to stop.
        agent_seconds: How long the agent has worked, in all pods together: `timeout` counts it.
    """

    time: Moment
    generation: Annotated[int, Field(ge=1, le=MAX_GENERATION)]
    turns: Count = 0
    cost_usd: Cost | None = None
    usage: Usage | None = None
    workspace: CheckpointedWorkspace | None = None
    session: bool = False
    size_bytes: Count = 0
    base_commit: CommitId | None = None
    disruption: bool = False
    agent_seconds: Annotated[float, Field(ge=0, le=MAX_TIMEOUT_SECONDS, allow_inf_nan=False)] = 0.0

    @property
    def resumable(self) -> bool:
        """Whether a pod can go on from it; else it only says what was paid."""
        return self.session and self.workspace != "TooLarge"


def read_checkpoint(text: bytes | str | None) -> Checkpoint | None:
    """Read the field of a record; total.

    Args:
        text: Its value; None when the record has no such field.

    Returns:
        The checkpoint. None when there is none, or nothing that can be read: a worker writes it,
        and what is no checkpoint is as none.
    """
    if not text or len(text) > MAX_CHECKPOINT_JSON_BYTES:
        return None
    try:
        return decode_json(Checkpoint, text)
    except InvalidMessageError:
        return None
