"""The few facts about a cluster that must outlive the command that chose them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster.errors import ClusterError


@dataclass(frozen=True)
class Record:
    """Which cluster is up.

    Attributes:
        kind: local, kind or current.
        link: number of the link network of the local kind's first node.
        nameservers: those of the outside world, when the local kind's pods may reach it.
        context: the user's context, of the current kind.
        more_links: those of its further nodes.
    """

    kind: str
    link: int = 0
    nameservers: tuple[str, ...] = ()
    context: str = ""
    more_links: tuple[int, ...] = ()

    @property
    def links(self) -> tuple[int, ...]:
        """The link networks of all its nodes, in order."""
        return (self.link, *self.more_links)

    @property
    def egress(self) -> bool:
        """Whether the local kind's pods may reach what lies beyond this machine."""
        return bool(self.nameservers)


def load(path: Path) -> Record | None:
    """Read the record; None when no cluster was brought up.

    Raises:
        ClusterError: the file is not one of ours.
    """
    if not path.exists():
        return None
    try:
        fields = json.loads(path.read_text())
        lists = ("nameservers", "more_links")
        return Record(**fields | {name: tuple(fields.get(name, ())) for name in lists})
    except (ValueError, TypeError, AttributeError) as error:
        raise ClusterError(f"{path} is not readable ({error}); remove it and try again") from None


def save(path: Path, record: Record) -> None:
    """Write the record so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(record), indent=1) + "\n")
    new.rename(path)
