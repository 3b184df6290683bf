"""Which object is meant by `at/NAME`, `pos/NAME` or NAME: the one place that decides."""

import re
from dataclasses import dataclass
from typing import Final, Literal

from orbiter.cli.kubectl.client import Kubectl, Object
from orbiter.cli.ui.outcome import CommandError, ExitCode

Kind = Literal["AgentTask", "POSession"]

RESOURCES: Final[dict[Kind, str]] = {
    "AgentTask": "agenttasks.orbiter.dev",
    "POSession": "posessions.orbiter.dev",
}
_SHORT: Final[dict[Kind, str]] = {"AgentTask": "at", "POSession": "pos"}
_WORDS: Final[dict[str, Kind]] = {
    "at": "AgentTask",
    "agenttask": "AgentTask",
    "agenttasks": "AgentTask",
    "pos": "POSession",
    "posession": "POSession",
    "posessions": "POSession",
}
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Found:
    """An object and what it is."""

    kind: Kind
    object: Object

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def reference(self) -> str:
        """What to type for it, for instance `at/hello`."""
        return f"{_SHORT[self.kind]}/{self.name}"


def parse(text: str) -> tuple[Kind | None, str]:
    """Read a reference.

    >>> parse("at/hello")
    ('AgentTask', 'hello')
    >>> parse("hello")
    (None, 'hello')

    Raises:
        CommandError: No kind or no name that could exist.
    """
    word, slash, name = text.rpartition("/")
    kind = _WORDS.get(word.lower().removesuffix(".orbiter.dev")) if slash else None
    if slash and kind is None:
        raise CommandError(
            f"{text!r}: there is no kind {word!r} here; write at/NAME for a task, pos/NAME for a"
            " session, or the name alone",
            ExitCode.USAGE,
        )
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"{name!r} is not the name of an object; names have small letters, digits and -",
            ExitCode.USAGE,
        )
    return kind, name


def resolve(
    kubectl: Kubectl, text: str, kinds: tuple[Kind, ...] = ("AgentTask", "POSession")
) -> Found:
    """Find the one object that is meant.

    Args:
        kubectl: The cluster.
        text: What was typed.
        kinds: What the command can deal with.

    Raises:
        CommandError: There is none, or a name alone means two.
    """
    kind, name = parse(text)
    if kind is not None and kind not in kinds:
        raise CommandError(
            f"{text} is a{'n' if kind[0] == 'A' else ''} {kind}; this command is for"
            f" {' and '.join(kinds)}s only",
            ExitCode.USAGE,
        )
    wanted = (kind,) if kind else kinds
    found = kubectl.find([RESOURCES[each] for each in wanted], name)
    if not found:
        lists = ",".join(_SHORT[each] for each in wanted)
        raise CommandError(
            f"no {' or '.join(wanted)} {name!r} in namespace {kubectl.namespace()!r};"
            f" `kubectl get {lists} -A` lists what there is",
            ExitCode.NOT_FOUND,
        )
    if len(found) > 1:
        raise CommandError(
            f"{name!r} is a task and a session; write at/{name} or pos/{name}", ExitCode.USAGE
        )
    return Found(found[0]["kind"], found[0])
