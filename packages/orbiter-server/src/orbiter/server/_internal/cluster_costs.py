"""What agents cost, summed up over the tasks and sessions that somebody may see."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.viewer import Viewer
from orbiter.server.cluster_models import ClusterObject, CostRow, Costs, CostsQuery

MOST_ROWS = 400
"""More than the days of a year; what costs least is summed up in one row."""
OTHER = "other"
NONE = "none"
"""The key of what has no such label, or no agent."""


async def costs_of(cluster: Cluster, viewer: Viewer, query: CostsQuery) -> Costs:
    """Return what the tasks and sessions cost that somebody may list.

    A session has one sum for all its days, so it belongs to no day and is left out there.

    Raises:
        RequestError: See `Cluster.visible`; sessions that are not theirs to list are left out.
    """
    if query.by == "label" and not query.label:
        raise RequestError(422, "by=label needs the label's key: label=team", param="label")
    tasks = await cluster.visible("agenttasks", viewer, query.namespace)
    sessions: Iterable[ClusterObject] = ()
    if query.by != "day":
        try:
            sessions = (await cluster.visible("posessions", viewer, query.namespace)).values()
        except RequestError as error:
            if error.status != 403:
                raise
    since = datetime.now(UTC) - timedelta(days=query.days)
    return summed(tasks.values(), sessions, query, since)


def summed(
    tasks: Iterable[ClusterObject],
    sessions: Iterable[ClusterObject],
    query: CostsQuery,
    since: datetime,
) -> Costs:
    """Sum up; pure.

    Args:
        tasks: Each counts when it was last active, on its day of UTC.
        sessions: Likewise.
        query: By what.
        since: What was active earlier does not count.
    """
    rows: dict[str, CostRow] = {}
    for kind, objects in (("tasks", tasks), ("sessions", sessions)):
        for each in objects:
            if each.active_at is None or each.active_at < since:
                continue
            key = _key(each, query)
            row = rows.get(key) or _row(key)
            rows[key] = _added(row, each, kind)
    order = sorted(rows.values(), key=lambda row: (-row.cost_usd, row.key))
    kept, rest = order[:MOST_ROWS], order[MOST_ROWS:]
    if rest:
        kept.append(_together(rest))
    if query.by == "day":
        kept.sort(key=lambda row: row.key)
    return Costs(rows=kept, cost_usd=sum(row.cost_usd for row in order))


def _key(found: ClusterObject, query: CostsQuery) -> str:
    match query.by:
        case "day":
            assert found.active_at is not None  # noqa: S101 - what has none is left out before
            return found.active_at.astimezone(UTC).date().isoformat()
        case "namespace":
            return found.namespace
        case "agent":
            return found.agent or NONE
    return found.labels.get(query.label) or NONE


def _row(key: str) -> CostRow:
    return CostRow(key=key, cost_usd=0.0, tasks=0, sessions=0, input_tokens=0, output_tokens=0)


def _added(row: CostRow, found: ClusterObject, kind: str) -> CostRow:
    return row.model_copy(
        update={
            "cost_usd": row.cost_usd + (found.cost_usd or 0.0),
            "input_tokens": row.input_tokens + found.input_tokens,
            "output_tokens": row.output_tokens + found.output_tokens,
            kind: getattr(row, kind) + 1,
        }
    )


def _together(rows: list[CostRow]) -> CostRow:
    numbers = ("cost_usd", "tasks", "sessions", "input_tokens", "output_tokens")
    return CostRow(key=OTHER, **{name: sum(getattr(r, name) for r in rows) for name in numbers})
