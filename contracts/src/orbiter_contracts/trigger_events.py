"""An event of a trigger between its receiver and the controller: what a task can be made of.

The receiver has read all that the sender wrote, within bounds; what stands here is only what
filters, names and prompts go by. An event of this class can always be sent: nothing in it is longer
than readers take.
"""

from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from orbiter_contracts.bounds import Count, Id, Name, printable, shortened
from orbiter_contracts.message_base import Message
from orbiter_contracts.webhook_signatures import Scheme

MAX_BODY_BYTES: Final = 1024 * 1024
"""The largest request that the receiver takes."""
MAX_EVENT_BYTES: Final = 128 * 1024
"""The largest event in the stream, as JSON."""
OWN_MARK: Final = "<!-- orbiter:"
"""What every comment of Orbiter's begins with, which GitHub does not show: such a comment starts
nothing, whoever's account it was written with."""
MAX_QUEUED_EVENTS: Final = 10_000
"""How many events of a namespace may wait in its stream."""
MAX_QUEUED_BYTES: Final = 32 * 1024 * 1024
"""How many bytes the stream of a namespace may take, about."""
MAX_KIND_CHARACTERS: Final = 128
MAX_LABELS: Final = 100
MAX_LABEL_CHARACTERS: Final = 256
MAX_PATHS: Final = 300
MAX_PATH_CHARACTERS: Final = 256
MAX_LINE: Final = 1024
MAX_PROSE: Final = 16 * 1024
MAX_DATA: Final = 32 * 1024
_LONG: Final = ("data", "body", "comment")
_LINES: Final = ("repository", "author", "number", "title", "url", "branch", "commit", "comment_id")

Line = Annotated[str, StringConstraints(max_length=MAX_LINE)]
Prose = Annotated[str, StringConstraints(max_length=MAX_PROSE)]
Label = Annotated[str, StringConstraints(max_length=MAX_LABEL_CHARACTERS)]
Path = Annotated[str, StringConstraints(max_length=MAX_PATH_CHARACTERS)]


class TriggerEvent(Message):
    """What has happened, for one trigger.

    Attributes:
        trigger: The trigger's name.
        uid: Its uid.
        scheme: How it came.
        kind: What it is, for instance `issues.labeled`, or as its sender names it.
        delivery: How the sender names this delivery, for people to look it up.
        identity: What is the same when it comes again: an id that was signed, or the digest of what
            was.
        received: When the receiver took it, in seconds since 1970.
        test: Whether no task is wanted, only the word what would have come of it.
        program: Whether a program did it and no person: a bot, or Orbiter itself.
        writer: Whether who did it may write to the repository; None when nobody says.
        paths_cut: Whether more files were changed than `paths` has.
    """

    trigger: Name
    uid: Name
    scheme: Scheme
    kind: Annotated[str, StringConstraints(max_length=MAX_KIND_CHARACTERS)] = ""
    delivery: Id = ""
    identity: Id = ""
    received: Count = 0
    test: bool = False
    program: bool = False
    writer: bool | None = None
    repository: Line = ""
    author: Line = ""
    number: Line = ""
    title: Line = ""
    body: Prose = ""
    url: Line = ""
    labels: Annotated[tuple[Label, ...], Field(max_length=MAX_LABELS)] = ()
    branch: Line = ""
    commit: Line = ""
    paths: Annotated[tuple[Path, ...], Field(max_length=MAX_PATHS)] = ()
    paths_cut: bool = False
    comment: Prose = ""
    comment_id: Line = ""
    data: Annotated[str, StringConstraints(max_length=MAX_DATA)] = ""

    def told(self) -> dict[str, str]:
        """The fields that a prompt may name (`event_references.TOLD_FIELDS`)."""
        return {
            **{name: getattr(self, name) for name in ("kind", "delivery", *_LINES[:-1], *_LONG)},
            "labels": ", ".join(self.labels),
            "paths": "\n".join(self.paths),
            "commentId": self.comment_id,
        }


def sized(fields: dict[str, Any]) -> TriggerEvent:
    """An event of texts of any length, each as much of it as there is room for.

    Args:
        fields: Those of the class, of its types.
    """
    made = dict(fields)
    for name in _LINES:
        made[name] = shortened(printable(made.get(name, "")), MAX_LINE)
    made["kind"] = shortened(printable(made.get("kind", "")), MAX_KIND_CHARACTERS)
    made["labels"] = tuple(
        shortened(printable(one), MAX_LABEL_CHARACTERS)
        for one in tuple(made.get("labels", ()))[:MAX_LABELS]
    )
    paths = tuple(made.get("paths", ()))
    made["paths"] = tuple(shortened(printable(one), MAX_PATH_CHARACTERS) for one in paths)
    made["paths"] = made["paths"][:MAX_PATHS]
    made["paths_cut"] = bool(made.get("paths_cut")) or len(paths) > MAX_PATHS
    prose, data = MAX_PROSE, MAX_DATA
    while True:
        for name in _LONG:
            most = data if name == "data" else prose
            made[name] = shortened(printable(fields.get(name, "")), most)
        event = TriggerEvent(**made)
        # A character may take six bytes as JSON.
        if len(event.model_dump_json().encode()) <= MAX_EVENT_BYTES or prose < MAX_LINE:
            return event
        prose, data = prose // 2, data // 2
