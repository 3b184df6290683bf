"""What agents cost, summed up over the tasks and sessions that somebody may see."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.viewer import Viewer
from orbiter.server.cluster_models import ClusterObject, CostRow, Costs, CostsQuery

if TYPE_CHECKING:
    from orbiter_contracts.costs import Cost, CostSum, Kind

AT_ONCE = 500
"""Objects that are summed up on the event loop, which takes 5 ms; more of them, in a thread."""
_summing = asyncio.Semaphore(2)
MOST_ROWS = 400
"""More than the days of a year; what costs least is summed up in one row."""


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
    # what is followed changes meanwhile: of now, and each of them is frozen
    found = tuple(tasks.values()), tuple(sessions)
    if sum(map(len, found)) <= AT_ONCE:
        return summed(*found, query, since)
    async with _summing:
        return await asyncio.to_thread(summed, *found, query, since)


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
        since: So many days before now; what was active earlier does not count.
    """
    from orbiter_contracts.costs import sum_costs

    now = since + timedelta(days=query.days)
    costs = chain(
        (_cost(each, "task", now) for each in tasks),
        (_cost(each, "session", now) for each in sessions),
    )
    by = f"label:{query.label}" if query.by == "label" else query.by
    rows, total = sum_costs(costs, (by,), since, most=MOST_ROWS)
    return Costs(
        rows=[_row(row) for row in rows], cost_usd=total.usd, without_cost=total.without_cost
    )


def _cost(found: ClusterObject, kind: "Kind", now: datetime) -> "Cost":
    """What one has cost; whoever may write its status may say that it ends in a year to come."""
    from orbiter_contracts.costs import Cost

    begun = found.attempts if kind == "task" else found.turns
    return Cost(
        namespace=found.namespace,
        kind=kind,
        active_at=found.active_at and min(found.active_at, now),
        usd=found.cost_usd,
        agent=found.agent,
        labels=found.labels,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        without_cost=max(begun, found.unpriced) if found.cost_usd is None else found.unpriced,
    )


def _row(row: "CostSum") -> CostRow:
    told = row._asdict()
    return CostRow(key=told.pop("keys")[0], cost_usd=told.pop("usd"), **told)
