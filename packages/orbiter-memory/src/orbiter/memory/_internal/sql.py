"""What the SQL storages share: columns, rows and the conditions of a filter.

Both write the same table in the same words; only the placeholder and the way to test membership
differ from one database to the other.
"""

from collections.abc import Callable, Sequence
from typing import Any

from orbiter.memory.text import terms
from orbiter.memory.types import MemoryRecord, RecordFilter

COLUMNS = (
    "id, kind, text, terms, user_id, session_id, agent_name, source, position, created_at, "
    "expires_at, vector, embedder, superseded_at, superseded_by"
)
# what tables that were made by an earlier version lack, in words that both databases know
ADDED = {
    "embedder": "TEXT NOT NULL DEFAULT ''",
    "superseded_at": "DOUBLE PRECISION",
    "superseded_by": "TEXT NOT NULL DEFAULT ''",
}
READ_COLUMNS = ", ".join(
    f"r.{name.strip()}" for name in COLUMNS.split(",") if name.strip() != "terms"
)
REPLACED = ", ".join(
    f"{name.strip()} = excluded.{name.strip()}"
    for name in COLUMNS.split(",")
    if name.strip() != "id"
)
# Membership in a list of texts that is given as one parameter.
Membership = Callable[[str], tuple[str, Callable[[Sequence[str]], Any]]]


def conditions(where: RecordFilter, mark: str, membership: Membership) -> tuple[str, list[Any]]:
    """Return a filter as an SQL condition over the table alias `r`, and its parameters.

    Args:
        where: Which records are meant.
        mark: The database's placeholder.
        membership: Gives for a column the test whether it is in a list, and how to pass the list.
    """
    tests: list[str] = []
    values: list[Any] = []
    for column in ("user_id", "session_id", "agent_name"):
        wanted = getattr(where, column)
        if wanted is not None:
            tests.append(f"r.{column} = {mark}")
            values.append(wanted)
    for column, wanted in (
        ("id", where.ids),
        ("kind", where.kinds),
        ("source", where.sources),
    ):
        if wanted is not None:
            test, convert = membership(f"r.{column}")
            tests.append(test)
            values.append(convert(wanted))
    if where.alive_at is not None:
        tests.append(f"(r.expires_at IS NULL OR r.expires_at > {mark})")
        values.append(where.alive_at)
    if where.expired_at is not None:
        tests.append(f"r.expires_at <= {mark}")
        values.append(where.expired_at)
    if where.embedder is not None:
        tests.append(f"r.embedder = {mark}")
        values.append(where.embedder)
    if where.other_embedder is not None:
        # two ranges, which an index finds; it could not find what is not equal
        tests.append(f"(r.embedder < {mark} OR r.embedder > {mark})")
        values += [where.other_embedder] * 2
    if where.with_vector is not None:
        tests.append(f"r.vector IS {'NOT ' if where.with_vector else ''}NULL")
    return " AND ".join(tests) or "1 = 1", values


def record_of(row: Sequence[Any], vector: Callable[[Any], tuple[float, ...]]) -> MemoryRecord:
    """Return the record of a row of READ_COLUMNS; a stored vector is read by `vector`."""
    return MemoryRecord(
        id=row[0],
        kind=row[1],
        text=row[2],
        user_id=row[3],
        session_id=row[4],
        agent_name=row[5],
        source=row[6],
        position=row[7],
        created_at=row[8],
        expires_at=row[9],
        vector=None if row[10] is None else vector(row[10]),
        embedder=row[11],
        superseded_at=row[12],
        superseded_by=row[13],
    )


def rows_of(
    records: Sequence[MemoryRecord], vector: Callable[[Sequence[float]], Any]
) -> list[tuple[Any, ...]]:
    """Return rows of COLUMNS, one for each id (the last record wins); `vector` stores a vector."""
    rows = {
        record.id: (
            record.id,
            record.kind,
            storable(record.text),
            " ".join(terms(record.text)),
            record.user_id,
            record.session_id,
            record.agent_name,
            record.source,
            record.position,
            record.created_at,
            record.expires_at,
            None if record.vector is None else vector(record.vector),
            record.embedder,
            record.superseded_at,
            record.superseded_by,
        )
        for record in records
    }
    return list(rows.values())


def storable(text: str) -> str:
    """Return a text without what databases refuse: NUL characters and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
