"""What a key's name says: whose it is, and what is in a stream. The way back from `queues.Keys`.

Pure and total: whatever bytes a server or a stranger names, they are one of our streams or they are
not.
"""

import re
from typing import Final, Literal, NamedTuple

from orbiter_contracts.queues import BARE, NAMESPACE_PATTERN, PREFIX, Keys, dead_letter

StreamKind = Literal["developer_input", "developer_output", "lifecycle", "po_input", "po_output"]

MAX_STREAM_NAME_BYTES: Final = 1024
"""A longer name is none of ours: a worker's id is at most a name of Kubernetes and some more."""
_FIXED: Final[dict[str, StreamKind]] = {
    BARE.developer_input: "developer_input",
    BARE.developer_output: "developer_output",
    BARE.lifecycle: "lifecycle",
}
_HEAD: Final = BARE.po_input("/").split("/")[0]
_PO: Final[tuple[tuple[str, StreamKind], ...]] = (
    (BARE.po_input("/").split("/")[1], "po_input"),
    (BARE.po_output("/").split("/")[1], "po_output"),
)
_DEAD: Final = dead_letter("")
_NAMESPACE: Final = re.compile(NAMESPACE_PATTERN)
_ENTRY: Final = re.compile(r"(0|[1-9][0-9]{0,19})-(0|[1-9][0-9]{0,19})")


class StreamName(NamedTuple):
    """A stream of ours.

    Attributes:
        keys: The keys it is one of; `keys.namespace` is whose it is, "" without a prefix.
        kind: What is in it.
        worker_id: Of a PO worker's stream, which worker; else "".
        dead: Whether it has the dead letters of that stream instead.
    """

    keys: Keys
    kind: StreamKind
    worker_id: str = ""
    dead: bool = False

    @property
    def key(self) -> str:
        """The name."""
        match self.kind:
            case "developer_input":
                key = self.keys.developer_input
            case "developer_output":
                key = self.keys.developer_output
            case "lifecycle":
                key = self.keys.lifecycle
            case "po_input":
                key = self.keys.po_input(self.worker_id)
            case "po_output":
                key = self.keys.po_output(self.worker_id)
        return dead_letter(key) if self.dead else key


def read_stream_name(name: bytes | str) -> StreamName | None:
    """Read the name of a stream; None when it is none of ours.

    What is read is never more than the name says: `read_stream_name(name).key` is the name again.
    """
    if len(name) > MAX_STREAM_NAME_BYTES:
        return None
    try:
        text = name.decode() if isinstance(name, bytes) else name
    except UnicodeDecodeError:
        return None
    keys = keys_with(text)
    rest = text[len(keys.prefix) :]
    alive = rest.removesuffix(_DEAD)
    dead = alive != rest
    if kind := _FIXED.get(alive):
        return StreamName(keys, kind, dead=dead)
    if alive.startswith(_HEAD):
        for suffix, po_kind in _PO:
            worker_id = alive[len(_HEAD) : -len(suffix)]
            if worker_id and alive.endswith(suffix):
                return StreamName(keys, po_kind, worker_id, dead)
    return None


def keys_with(name: str) -> Keys:
    """The keys that have the prefix of a name; whatever is behind that."""
    prefix = PREFIX.match(name)
    return Keys(prefix[0] if prefix else "")


def owner_of_key(key: str) -> str | None:
    """Whose a key is, by how it begins.

    Returns:
        A namespace; "" for a key without a prefix whose name tells none; None for one that is none
        of ours.
    """
    prefix = PREFIX.match(key)
    if prefix and prefix[0]:
        return Keys(prefix[0]).namespace
    for head, end in ((_HEAD, "."), (BARE.session_records(), ":")):
        name, found, _ = key.removeprefix(head).partition(end)
        if key.startswith(head) and found and _NAMESPACE.fullmatch(name):
            return name
    return "" if key.startswith(BARE.beginnings) else None


def is_entry_id(text: str) -> bool:
    """Whether it is the id of a stream entry as Redis writes it."""
    found = _ENTRY.fullmatch(text)
    return found is not None and all(int(part) < 2**64 for part in found.groups())
