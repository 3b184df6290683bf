"""What the containers with the git credential and the worker say to each other. Pure.

The pod of a task with a credential has three containers: one clones and leaves a report, one pushes
what it is sent over a socket, and between them the worker, whose agent sees neither credential nor
connection. Both files lie in a directory that the worker cannot write to.

A push is one line, the pack, and one line back. The line names a commit and no branch: the
container that pushes knows its branch, so there is nothing to ask for another one with. Before it,
and before the agent starts, the worker may ask for one commit of the task's repository: one line,
one line back, and the pack.
"""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from orbiter_contracts import WorkspaceReport, decode_json
from orbiter_contracts.messages import Message
from worker_wrapper.process import below

REPORT: Final = "clone.json"
SOCKET: Final = "push.sock"
HELLO: Final = b"ready\n"
"""Said to the one connection that is accepted, once no other can be."""
PACK_BYTES: Final = 1024**3
"""How large the agent's commits may be, as git packs them."""
LINE_BYTES: Final = 256 * 1024
_REPORT_BYTES: Final = 1024 * 1024
_SHALLOW_COMMITS: Final = 2000

_COMMIT_ID: Final = re.compile(r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$", re.MULTILINE)

CommitId = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]


class PushRequest(Message):
    """Asks for a commit to become the head of the task's branch; `size` bytes of pack follow.

    `shallow` names the commits whose parents are not there, as git's file of that name does.
    """

    model_config = ConfigDict(extra="forbid")

    head: CommitId
    size: Annotated[int, Field(ge=0)]
    shallow: Annotated[list[CommitId], Field(max_length=_SHALLOW_COMMITS)]


class FetchRequest(Message):
    """Asks for the commit that the work began with, which a later clone may lack."""

    model_config = ConfigDict(extra="forbid")

    fetch: CommitId


class FetchReply(Message):
    """`size` bytes of pack follow, or the text why not; `shallow` as in `PushRequest`."""

    error: str | None = None
    size: Annotated[int, Field(ge=0, le=PACK_BYTES)] = 0
    shallow: list[CommitId] = Field(default_factory=list, max_length=_SHALLOW_COMMITS)


class PushReply(Message):
    """What came of it: nothing to say, or why not."""

    error: str | None = None


def lines(commits: list[str]) -> str:
    """Commits as git's file `shallow` has them."""
    return "".join(f"{commit}\n" for commit in commits)


def read_shallow(repository: Path) -> list[str]:
    """The commits whose parents a repository lacks; no more than a line of ours has room for."""
    try:
        with below.opened(repository, ("shallow",)) as file:
            text = file.read(LINE_BYTES).decode("ascii", "replace")
            return sorted(set(_COMMIT_ID.findall(text)))
    except OSError:
        return []


def write_report(directory: Path, report: WorkspaceReport) -> None:
    """Leave the worker word of the clone; whole, or not at all."""
    draft = directory / f"{REPORT}.new"
    draft.write_text(report.model_dump_json())
    draft.replace(directory / REPORT)


def read_report(directory: Path) -> WorkspaceReport:
    """Read what became of the clone.

    Raises:
        OSError: There is no report.
        InvalidMessageError: It is none.
    """
    with (directory / REPORT).open("rb") as file:
        return decode_json(WorkspaceReport, file.read(_REPORT_BYTES))
