"""The journal: an evaluation's results as they come, so that a killed one goes on where it was.

The first line says which evaluation it is, each other line is the result of one run. A line is
written in one piece when its run is over: what a kill leaves behind is whole lines and at most the
beginning of one, which is cut off.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from orbiter.eval.record import RunInfo
from orbiter.evaluation import CaseResult
from orbiter.types import OrbiterError

Key = tuple[str, int]
_BEGINNING = b'{"name":'
"""How the first line of a journal begins, the one a kill may have left half written."""


class JournalError(OrbiterError):
    """A journal cannot be read, belongs to another evaluation, or is in use."""


class Journal:
    """The results so far, and where the next ones are written.

    Attributes:
        info: Which evaluation it is.
        results: By case and attempt; the last one written counts.
    """

    def __init__(self, info: RunInfo, results: dict[Key, CaseResult], handle: int | None) -> None:
        self.info = info
        self.results = results
        self._handle = handle

    def add(self, result: CaseResult) -> None:
        """Keep a result; when this returns, a kill of the process does not lose it."""
        if self._handle is not None:
            _write(self._handle, result.model_dump_json())
        self.results[result.case_id, result.attempt] = result


@contextmanager
def open_journal(path: str | Path | None, info: RunInfo) -> Iterator[Journal]:
    """Begin a journal, or go on with one; nobody else can meanwhile.

    Args:
        path: The file; None keeps the results in memory only.
        info: Which evaluation it is.

    Raises:
        JournalError: The file belongs to another evaluation, or is in use.
    """
    if path is None:
        yield Journal(info, {}, None)
        return
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{file} is in use: another evaluation is writing it") from None
        data = file.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        # nothing is cut off before it is known that the file is a journal
        if whole:
            begun, results = _parse(file, whole)
            _check_same(file, begun, info)
            info = begun
            os.ftruncate(handle, len(whole))
        elif not _BEGINNING.startswith(data[: len(_BEGINNING)]):
            raise JournalError(f"{file} is no journal of an evaluation: see its first line")
        else:
            results = {}
            os.ftruncate(handle, 0)
            _write(handle, info.model_dump_json())
        yield Journal(info, results, handle)
        os.fsync(handle)
    finally:
        os.close(handle)


def read_journal(path: str | Path) -> tuple[RunInfo, list[CaseResult]]:
    """Read the results of a journal, in the order they came.

    Raises:
        JournalError: It is no journal.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise JournalError(f"{file} cannot be read: {error.strerror}") from error
    info, results = _parse(file, data[: data.rfind(b"\n") + 1])
    return info, list(results.values())


def _write(handle: int, line: str) -> None:
    data = line.encode() + b"\n"
    while data:
        data = data[os.write(handle, data) :]


def _parse(file: Path, data: bytes) -> tuple[RunInfo, dict[Key, CaseResult]]:
    lines = data.split(b"\n")[:-1]
    try:
        info = RunInfo.model_validate_json(lines[0] if lines else b"")
    except ValidationError as error:
        raise JournalError(f"{file} is no journal of an evaluation: see its first line") from error
    results: dict[Key, CaseResult] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            result = CaseResult.model_validate_json(line)
        except ValidationError as error:
            raise JournalError(f"{file}, line {number} is no result: {error}") from error
        results[result.case_id, result.attempt] = result
    return info, results


def _check_same(file: Path, begun: RunInfo, now: RunInfo) -> None:
    for field, what in (
        ("dataset_hash", "cases"),
        ("target_hash", "agent (its model, instructions or tools)"),
        ("scorers", "scorers"),
        ("repeats", "repeats"),
    ):
        if getattr(begun, field) != getattr(now, field):
            raise JournalError(
                f"{file} was begun with other {what}: go on as you began, or choose another file"
            )
