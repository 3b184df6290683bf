"""Datasets: files of cases, as JSON lines or as CSV."""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from orbiter.evaluation import Case
from orbiter.types import OrbiterError

# cells that hold more than text; everything else in a CSV file is text
_JSON_COLUMNS = ("tools", "messages")


class DatasetError(OrbiterError):
    """A dataset cannot be read; the text names the file and the line."""


def load_dataset(path: str | Path, *, columns: Mapping[str, str] | None = None) -> list[Case]:
    """Read a dataset.

    Args:
        path: A `.jsonl` file with one object a line, or a `.csv` file with a heading. The names
            are those of Case; a case without an `id` is called after its line. In CSV, `tools`
            and `messages` are JSON and `tags` are separated by semicolons.
        columns: Names in the file and what they are called here, such as
            `{"question": "input"}`. With it, names the file has beyond that are left out;
            without it they are errors, because they may be mistyped.

    Raises:
        DatasetError: The file is missing, empty, or a line is no case.
    """
    file = Path(path)
    read = {".jsonl": _json_lines, ".csv": _csv_lines}.get(file.suffix)
    if read is None:
        raise DatasetError(f"{file}: a dataset is a .jsonl or a .csv file")
    try:
        rows = list(read(file))
        _check_columns(file, [row for _, row in rows], columns or {})
        cases = [_case(file, line, row, columns) for line, row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{file} cannot be read: {error}") from error
    return check_cases(cases, str(file))


def save_dataset(cases: Iterable[Case], path: str | Path) -> None:
    """Write cases as JSON lines."""
    lines = [case.model_dump_json(exclude_defaults=True) + "\n" for case in cases]
    Path(path).write_text("".join(lines), encoding="utf-8")


def check_cases(cases: Sequence[Case], name: str = "the dataset") -> list[Case]:
    """Return the cases as a list, if they are a dataset.

    Raises:
        DatasetError: There is none, one is no Case, or two have one id.
    """
    if not cases:
        raise DatasetError(f"{name} has no cases")
    seen: set[str] = set()
    for case in cases:
        if not isinstance(case, Case):
            raise DatasetError(f"{name} has {case!r:.80}, which is no case: give Case(input=...)")
        if case.id in seen:
            raise DatasetError(f"{name} has two cases with the id '{case.id}'; rename one")
        seen.add(case.id)
    return list(cases)


def fingerprint(cases: Iterable[Case]) -> str:
    """Return a short name for exactly these cases, in whatever order: 16 hexadecimal digits."""
    texts = sorted(case.model_dump_json() for case in cases)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DatasetError(f"{file}, line {number} is no JSON: {error}") from error
            if not isinstance(row, dict):
                raise DatasetError(f"{file}, line {number} is no JSON object: {line.strip()[:80]}")
            yield number, row


def _csv_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text, strict=True)
        for row in reader:
            if None in row or None in row.values():
                raise DatasetError(
                    f"{file}, line {reader.line_num} has another number of cells than the heading "
                    f"({', '.join(reader.fieldnames or ())})"
                )
            # an empty cell says nothing; that it might mean empty text, CSV cannot tell
            yield reader.line_num, {key: cell for key, cell in row.items() if cell != ""}


def _check_columns(
    file: Path, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]
) -> None:
    """Refuse names that are no field of a case, given twice, or in no row."""
    known, options = list(Case.model_fields), dict[str, str]()
    for theirs, ours in columns.items():
        option = f"--column {theirs}={ours}"
        if ours not in known:
            near = get_close_matches(ours, known, 1, 0.7)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise DatasetError(
                f"{option}: a case has no field '{ours}', only {', '.join(known)}{hint}"
            )
        if ours in options:
            raise DatasetError(
                f"{options[ours]} and {option} rename to the same field; leave one out"
            )
        options[ours] = option
    there = {key: None for row in rows for key in row}
    for theirs, ours in columns.items():
        if rows and theirs not in there:
            raise DatasetError(
                f"--column {theirs}={ours}: no case of {file} has '{theirs}'; they have "
                f"{', '.join(there)}"
            )


def _case(file: Path, line: int, row: dict[str, Any], columns: Mapping[str, str] | None) -> Case:
    foreign = [key for key in row if key not in Case.model_fields]
    if columns is not None:
        renamed = {columns.get(key, key): value for key, value in row.items()}
        row = {key: value for key, value in renamed.items() if key in Case.model_fields}
    row.setdefault("id", f"line-{line}")
    try:
        if file.suffix == ".csv":
            row = _cells(row)
        return Case.model_validate(row)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        what = "it is missing" if problem["type"] == "missing" else problem["msg"]
        told = f"{file}, line {line}: {where}: {what}"
        if problem["type"] in ("missing", "extra_forbidden"):
            told += f"; the names are {', '.join(Case.model_fields)}"
            theirs, ours = "theirs", "ours"
            if problem["type"] == "missing" and foreign:
                theirs, ours = foreign[0], where
            told += f"; others need columns={{'{theirs}': '{ours}'}}, --column {theirs}={ours}"
        raise DatasetError(told) from error
    except ValueError as error:
        raise DatasetError(f"{file}, line {line}: {error}") from error


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    row = dict(row)
    for name in _JSON_COLUMNS:
        if name in row:
            try:
                row[name] = json.loads(row[name])
            except ValueError as error:
                raise ValueError(f"{name} is no JSON: {error}") from error
    if "tags" in row:
        row["tags"] = [tag.strip() for tag in row["tags"].split(";") if tag.strip()]
    return row
