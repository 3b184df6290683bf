"""Which files of a workspace are artifacts.

The workspace is a stranger's: it may hold a million files, links, pipes, and names that no terminal
should be shown. No link is followed (process/below.py), so that nothing outside is ever read; how
much is looked at, and for how long, is bounded; what is left out is said in a sentence.
"""

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from orbiter_contracts.artifacts import MAX_ARTIFACTS, file_name_problem
from worker_wrapper.process import below

LOOKED_AT: Final = 100_000
"""How many files and directories are looked at."""
DEPTH: Final = 64
_ANY_DEPTH: Final = "**"
_SHOWN: Final = 80

State = tuple[int, int]
"""A pattern, and how many of its parts are behind us."""
Kind = Literal["file", "directory", "other"]


@dataclass(slots=True)
class Selection:
    """What there is to keep.

    Attributes:
        names: Paths of files from the workspace on, in their order.
        left_out: Why some are not among them, for people.
        unmatched: Patterns that nothing matches.
    """

    names: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


class Patterns:
    """Several patterns at once.

    `*`, `?` and `[…]` match within a name, `**` any number of directories; a directory stands for
    all that is in it. What is called `.git` is never matched.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        parts = [pattern.removesuffix("/").split("/") for pattern in patterns]
        self._parts = [
            [None if part == _ANY_DEPTH else re.compile(translate(part)) for part in one]
            for one in parts
        ]

    @property
    def begin(self) -> frozenset[State]:
        """The states at the workspace itself."""
        return self._closed({(which, 0) for which in range(len(self._parts))})

    def after(self, states: frozenset[State], name: str) -> frozenset[State]:
        """The states at what has this name in a directory."""
        reached = set()
        for which, at in states:
            if at == len(self._parts[which]):
                reached.add((which, at))  # a directory that is meant as a whole
                continue
            part = self._parts[which][at]
            if part is None:
                reached.add((which, at))
            elif part.match(name):
                reached.add((which, at + 1))
        return self._closed(reached)

    def complete(self, states: frozenset[State]) -> set[int]:
        """The patterns that match what is in these states."""
        return {which for which, at in states if at == len(self._parts[which])}

    def _closed(self, states: set[State]) -> frozenset[State]:
        found = set(states)
        for which, first in states:
            at = first
            while at < len(self._parts[which]) and self._parts[which][at] is None:
                at += 1
                found.add((which, at))
        return frozenset(found)


def select(root: Path, wanted: Sequence[str], *, until: float) -> Selection:
    """Find the files that patterns mean.

    Args:
        root: The workspace.
        wanted: The patterns.
        until: When to be done with it, by `time.monotonic`.
    """
    patterns, selection = Patterns(wanted), Selection()
    matched: set[int] = set()
    odd, unfit = 0, ""
    for name, kind, which in _walk(root, patterns, selection, until):
        matched |= which
        if kind != "file":
            odd += 1
        elif problem := file_name_problem(name):
            unfit = unfit or f"{name[:_SHOWN]!a} {problem}, as may others"
        elif len(selection.names) == MAX_ARTIFACTS:
            selection.left_out.append(f"more than {MAX_ARTIFACTS} files match: name fewer")
            break
        else:
            selection.names.append(name)
    if odd:
        selection.left_out.append(f"{odd} are links, pipes or devices, and no files")
    if unfit:
        selection.left_out.append(unfit)
    selection.unmatched = [text for at, text in enumerate(wanted) if at not in matched]
    return selection


def _walk(
    root: Path, patterns: Patterns, selection: Selection, until: float
) -> Iterator[tuple[str, Kind, set[int]]]:
    """What is matched and no directory, with which patterns match it."""
    pending: list[tuple[tuple[str, ...], frozenset[State]]] = [((), patterns.begin)]
    looked_at = 0
    while pending:
        parts, states = pending.pop()
        if len(parts) > DEPTH:
            selection.left_out.append(f"directories nested deeper than {DEPTH}")
            continue
        entries = _entries(root, parts, LOOKED_AT - looked_at)
        below_here = []
        for name, kind in entries:
            looked_at += 1
            if looked_at >= LOOKED_AT or time.monotonic() > until:
                selection.left_out.append(
                    f"more than {LOOKED_AT} files had to be looked at, or it took too long: name "
                    "the paths more exactly"
                )
                return
            if name.lower() == ".git":
                continue
            reached = patterns.after(states, name)
            if kind == "directory":
                if reached:
                    below_here.append(((*parts, name), reached))
            elif which := patterns.complete(reached):
                yield "/".join((*parts, name)), kind, which
        pending += reversed(below_here)


def _entries(root: Path, parts: tuple[str, ...], most: int) -> list[tuple[str, Kind]]:
    try:
        with below.directory(root, parts) as at, os.scandir(at) as found:
            names = sorted(entry.name for entry in islice(found, most + 1))
            return [(name, _kind(name, at)) for name in names]
    except OSError:
        return []  # gone, or made unreadable


def _kind(name: str, at: int) -> Kind:
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except OSError:
        return "other"
    if stat.S_ISDIR(mode):
        return "directory"
    return "file" if stat.S_ISREG(mode) else "other"
