"""What there is in the cluster to sum up, read page by page with the rights of whoever asks.

Of a page only what objects have cost is kept, so a cluster of any size is summed up in the memory
that a page takes. What was deleted only a budget still knows of: what it was charged beyond what
the objects tell is a cost of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import urlencode

from orbiter.cli.kubectl.client import LIST, Kubectl, Object, decode
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.text import moment
from orbiter_contracts.clamping import clamped_cost
from orbiter_contracts.costs import Cost, cost_of

_PAGE: Final = 200
_LISTS_ANEW: Final = 3
"""How often a list is begun again of which the API server has forgotten where it was."""
_FORGOTTEN: Final = "continue parameter is too old"
_GROUP: Final = "/apis/orbiter.dev/v1alpha1"
Tell = Callable[[str], None]


class Budget(NamedTuple):
    """An AgentBudget's account in its present period; money in US dollars."""

    namespace: str
    name: str
    since: datetime
    spent: float
    reserved: float


def objects(kubectl: Kubectl, plural: str, namespace: str | None) -> Iterator[Object]:
    """Read all objects of a kind, page by page.

    Args:
        kubectl: The cluster.
        plural: Name of the resource in the group orbiter.dev.
        namespace: Where; None for everywhere.

    Raises:
        CommandError: They cannot be listed.
    """
    place = f"/namespaces/{namespace}" if namespace is not None else ""
    seen: set[str] = set()
    token, anew = "", 0
    while True:
        query = urlencode({"limit": _PAGE} | ({"continue": token} if token else {}))
        try:
            printed = kubectl.run("get", "--raw", f"{_GROUP}{place}/{plural}?{query}")
        except CommandError as error:
            if not token or _FORGOTTEN not in str(error) or anew >= _LISTS_ANEW:
                raise
            token, anew = "", anew + 1
            continue
        page = decode(printed, root=LIST)
        for item in page["items"]:
            uid = str(item["metadata"]["uid"])
            if uid not in seen:
                seen.add(uid)
                yield item
        token = page.get("metadata", {}).get("continue") or ""
        if not token:
            return


def budgets(kubectl: Kubectl, namespace: str | None, left_out: Tell) -> list[Budget]:
    """The budgets that have an account; none, and a word, where they are not to be listed."""
    found = []
    for item in _allowed(kubectl, "agentbudgets", namespace, left_out):
        status, meta = item.get("status"), item["metadata"]
        if not isinstance(status, dict):
            continue
        since, spent = moment(status.get("periodStart")), clamped_cost(status.get("spentUSD"))
        if since is None or spent is None:
            continue
        held = clamped_cost(status.get("reservedUSD")) or 0.0
        found.append(Budget(meta["namespace"], meta["name"], since, spent, held))
    return sorted(found)


def costs(
    kubectl: Kubectl,
    namespace: str | None,
    known: Sequence[Budget],
    since: datetime,
    left_out: Tell,
) -> Iterator[Cost]:
    """What every task and session has cost, and at last what only the budgets tell.

    Args:
        kubectl: The cluster.
        namespace: Where; None for everywhere.
        known: The budgets there.
        since: A budget whose period began earlier says nothing of the time behind it.
        left_out: Told what is not to be listed.

    Raises:
        CommandError: The tasks cannot be listed.
    """
    told = {budget: 0.0 for budget in known if budget.since >= since}
    for item in objects(kubectl, "agenttasks", namespace):
        yield _counted(cost_of(item, "task"), told)
    for item in _allowed(kubectl, "posessions", namespace, left_out):
        yield _counted(cost_of(item, "session"), told)
    yield from _beyond(told)


def _counted(cost: Cost, told: dict[Budget, float]) -> Cost:
    """The cost, noted with every budget that may have been charged it."""
    for budget in told:
        if budget.namespace == cost.namespace and _may_be_in(cost, budget):
            told[budget] += cost.usd or 0.0
    return cost


def _may_be_in(cost: Cost, budget: Budget) -> bool:
    """Whether what a task or a session has cost may have been charged in a budget's period.

    Of a session it may be a part: it is charged turn by turn, and tells one sum of all its turns.
    """
    at_work = cost.kind == "task" and not cost.over
    return at_work or (cost.active_at is not None and cost.active_at >= budget.since)


def _beyond(told: dict[Budget, float]) -> Iterator[Cost]:
    """What budgets were charged and no object tells; each namespace once, by its longest memory."""
    most: dict[str, float] = {}
    for budget, usd in told.items():
        # what sums of rounded numbers differ by is no money
        rest = round(budget.spent - usd, 6)
        most[budget.namespace] = max(rest, most.get(budget.namespace, 0.0))
    now = datetime.now(UTC)
    for namespace, usd in most.items():
        if usd > 0:
            yield Cost(namespace=namespace, kind="budget", active_at=now, usd=usd)


def _allowed(
    kubectl: Kubectl, plural: str, namespace: str | None, left_out: Tell
) -> Iterator[Object]:
    try:
        yield from objects(kubectl, plural, namespace)
    except CommandError as error:
        if error.code != ExitCode.NOT_FOUND and "forbidden" not in str(error):
            raise
        left_out(f"{plural} are left out: {error}")
