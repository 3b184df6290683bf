"""Storage in this process: quick, searchable, gone when the process ends.

Records lie in groups of one user, session, agent and kind, so that a session's newest messages
are found without looking at anybody else's. A group is indexed when it is first searched.
"""

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice

from orbiter.memory._internal.bm25 import TermIndex, score
from orbiter.memory.embedding import dot
from orbiter.memory.text import terms
from orbiter.memory.types import MemoryHit, MemoryRecord, RecordFilter

_GroupKey = tuple[str, str, str, str]


class _Group:
    __slots__ = ("index", "may_expire", "records", "unindexed")

    def __init__(self) -> None:
        self.records: dict[str, MemoryRecord] = {}
        self.unindexed: set[str] = set()
        self.index = TermIndex()
        self.may_expire = False

    def put(self, record: MemoryRecord) -> None:
        self.remove(record.id)
        self.records[record.id] = record
        self.unindexed.add(record.id)
        self.may_expire = self.may_expire or record.expires_at is not None

    def remove(self, record_id: str) -> None:
        if self.records.pop(record_id, None) is None:
            return
        if record_id in self.unindexed:
            self.unindexed.remove(record_id)
        else:
            self.index.remove(record_id)

    def must_scan(self, where: RecordFilter) -> bool:
        """Whether records of this group may not fit although the group does."""
        timed = where.alive_at is not None or where.expired_at is not None
        return (
            where.sources is not None
            or where.ids is not None
            or where.embedder is not None
            or where.other_embedder is not None
            or where.with_vector is not None
            or (timed and (self.may_expire or where.expired_at is not None))
        )

    def indexed(self) -> TermIndex:
        for record_id in self.unindexed:
            self.index.add(record_id, terms(self.records[record_id].text))
        self.unindexed.clear()
        return self.index


class InMemoryStorage:
    """Keeps records in dictionaries and searches them by BM25 and by vector."""

    def __init__(self) -> None:
        self._groups: dict[_GroupKey, _Group] = {}
        self._group_of: dict[str, _GroupKey] = {}

    async def put(self, records: Sequence[MemoryRecord]) -> None:
        """Keep records; one with a known id replaces the old one and counts as newest."""
        for record in records:
            key = (record.user_id, record.session_id, record.agent_name, record.kind)
            old = self._group_of.get(record.id)
            if old is not None and old != key:
                self._groups[old].remove(record.id)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group()
            group.put(record)
            self._group_of[record.id] = key

    async def select(self, where: RecordFilter, *, limit: int | None = None) -> list[MemoryRecord]:
        """Return the records that fit, oldest put first; with `limit` only the newest so many."""
        groups = self._matching_groups(where)
        if where.ids is not None:
            ids = dict.fromkeys(where.ids)
            named = (g.records[key] for key in ids for g in groups if key in g.records)
            found = [record for record in named if _fits(record, where)]
        elif len(groups) == 1:
            newest_first: Iterator[MemoryRecord] = reversed(groups[0].records.values())
            if groups[0].must_scan(where):
                newest_first = (record for record in newest_first if _fits(record, where))
            return list(islice(newest_first, limit))[::-1]
        else:
            found = [r for group in groups for r in group.records.values() if _fits(r, where)]
        found.sort(key=lambda record: record.created_at)
        return found if limit is None else found[max(0, len(found) - limit) :]

    async def search_text(self, query: str, where: RecordFilter, *, limit: int) -> list[MemoryHit]:
        """Return the best matches of the query's words, best first."""
        groups = self._matching_groups(where)
        scores = score(terms(query), [group.indexed() for group in groups])
        found = ((self._record(record_id), value) for record_id, value in scores.items())
        return _best(((r, value) for r, value in found if _fits(r, where)), limit)

    async def search_vector(
        self, vector: Sequence[float], where: RecordFilter, *, limit: int
    ) -> list[MemoryHit]:
        """Return the records whose vectors are nearest to `vector` (of length 1), best first."""
        records = (r for group in self._matching_groups(where) for r in group.records.values())
        return _best(
            (
                (r, dot(r.vector, vector))
                for r in records
                if r.vector and len(r.vector) == len(vector) and _fits(r, where)
            ),
            limit,
        )

    async def set_vectors(self, records: Sequence[MemoryRecord]) -> None:
        """Give records their vectors and keep their places; those that have changed are left."""
        for record in records:
            group = self._groups.get(self._group_of.get(record.id, ("", "", "", "")))
            old = None if group is None else group.records.get(record.id)
            if group is not None and old is not None and old.text == record.text:
                new = {"vector": record.vector, "embedder": record.embedder}
                group.records[record.id] = old.model_copy(update=new)

    async def delete(self, where: RecordFilter) -> int:
        """Delete the records that fit and return how many they were."""
        return self._drop(await self.select(where))

    async def trim(self, where: RecordFilter, *, keep: int) -> None:
        """Delete all but the newest `keep` of the records that fit."""
        groups = self._matching_groups(where)
        if len(groups) == 1 and not groups[0].must_scan(where):
            records = groups[0].records
            self._drop(list(islice(records.values(), max(0, len(records) - keep))))
        else:
            found = await self.select(where)
            self._drop(found[: max(0, len(found) - keep)])

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of, and the records stay."""

    def _matching_groups(self, where: RecordFilter) -> list[_Group]:
        user, session, agent, kinds = where.user_id, where.session_id, where.agent_name, where.kinds
        if user is None or session is None or agent is None or kinds is None:
            return [
                group
                for (of_user, of_session, of_agent, kind), group in self._groups.items()
                if (user is None or user == of_user)
                and (session is None or session == of_session)
                and (agent is None or agent == of_agent)
                and (kinds is None or kind in kinds)
            ]
        keys = [(user, session, agent, kind) for kind in kinds]
        return [self._groups[key] for key in keys if key in self._groups]

    def _record(self, record_id: str) -> MemoryRecord:
        return self._groups[self._group_of[record_id]].records[record_id]

    def _drop(self, records: Sequence[MemoryRecord]) -> int:
        for record in records:
            key = self._group_of.pop(record.id)
            group = self._groups[key]
            group.remove(record.id)
            if not group.records:
                del self._groups[key]
        return len(records)


def _fits(record: MemoryRecord, where: RecordFilter) -> bool:
    """Check what the group does not tell."""
    if where.ids is not None and record.id not in where.ids:
        return False
    if where.sources is not None and record.source not in where.sources:
        return False
    if where.embedder is not None and record.embedder != where.embedder:
        return False
    if where.other_embedder is not None and record.embedder == where.other_embedder:
        return False
    if where.with_vector is not None and (record.vector is not None) != where.with_vector:
        return False
    expires = record.expires_at
    if where.alive_at is not None and expires is not None and expires <= where.alive_at:
        return False
    return where.expired_at is None or (expires is not None and expires <= where.expired_at)


def _best(found: Iterator[tuple[MemoryRecord, float]], limit: int) -> list[MemoryHit]:
    best = nlargest(limit, found, key=lambda pair: pair[1])
    return [MemoryHit(record=record, score=value) for record, value in best]
