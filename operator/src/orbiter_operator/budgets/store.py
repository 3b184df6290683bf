"""The AgentBudgets as last seen, and their ledgers, which are written before anything follows.

A ledger is in its budget's status, and every write names the resourceVersion that it was made of:
what was written meanwhile, by whomever, is read and thought over again. An answer that got lost
does no harm, because a reservation has its task's uid and its attempt for a name. Whoever starts
anew finds all that was granted, and settles what belongs to tasks that are gone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog

from orbiter_operator.budgets.decide import Budget, held_by, judge, near_event, status_of
from orbiter_operator.budgets.ledger import Held, Ledger, micros, reserve, settle
from orbiter_operator.budgets.models import MOST_BUDGETS, Budgeted, Need
from orbiter_operator.budgets.turns import Turn, charged, has_money, released, taken
from orbiter_operator.kube.client import TRANSPORT_ERRORS, ApiError, Kube
from orbiter_operator.kube.events import EventPoster
from orbiter_operator.kube.informer import Informer, fetch
from orbiter_operator.kube.models import RefusedError
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.parsed_cache import ParsedCache
from orbiter_operator.kube.patches import merge_patch
from orbiter_operator.kube.resources import AGENT_BUDGETS

log = structlog.get_logger(__name__)
Object = dict[str, Any]
Change = Callable[[Budget, Ledger, datetime], Ledger]
There = Callable[[Key, str], bool]
Enqueue = Callable[[Key], None]
_TRIES = 8
"""How often a write is thought over again that somebody else's came before."""
_TEND_SECONDS = 30.0
_ASKED_A_SECOND = 10
"""Tasks that wait for a budget look again so often at most, all together."""


class Budgets:
    """What tasks may cost, and who has reserved what.

    Args:
        kube: The API client.
        events: Posts Kubernetes Events.
        namespaces: Which namespaces; empty for all.
        allowed: Raises unless this replica is the active one.
        clock: The time.
    """

    def __init__(
        self,
        kube: Kube,
        events: EventPoster,
        namespaces: Sequence[str],
        allowed: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._kube, self._events = kube, events
        self._kinds: dict[str, tuple[There, Enqueue]] = {}
        self._allowed = allowed
        self._clock = clock
        self._cache = ParsedCache(Budget.of, self._changed, matters=Budget.becomes_other)
        self.informer = Informer(kube, AGENT_BUDGETS, self._cache, namespaces=namespaces)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: dict[str, dict[Key, Need]] = {}
        self._due = asyncio.Event()

    def serve(self, kind: str, there: There, enqueue: Enqueue) -> None:
        """Have a kind of objects whose money this is.

        Args:
            kind: Its name.
            there: Whether the one of that key and uid may still be at work.
            enqueue: Called with every one that may fit now.
        """
        self._kinds[kind] = there, enqueue

    def judge(self, namespace: str, need: Need) -> Budgeted | None:
        """What the budgets of a namespace say to an attempt that would begin; None without any."""
        return judge(
            self._of(namespace, MOST_BUDGETS + 1), need, self._clock(), self._again(namespace)
        )

    def any(self, namespace: str) -> bool:
        """Whether a namespace has budgets."""
        return bool(self._cache.of(namespace))

    def judge_turn(self, namespace: str, turn: Turn) -> Budgeted | None:
        """What the budgets of a namespace say to a session's turn; None without any.

        As they will be, once what the session has cost is charged.
        """
        now = self._clock()
        after = (
            each._replace(ledger=charged(each.now(now), turn, each.amount(turn.need)))
            for each in self._of(namespace, MOST_BUDGETS + 1)
        )
        return judge(list(after), turn.need, now, self._again(namespace))

    async def take(self, namespace: str, turn: Turn, *, grant: bool) -> bool:
        """Charge what an awake session has cost, and put its turn's money aside, in every budget.

        Nothing new without `grant`: where one budget has no room, no other one holds any. Returns
        whether the turn has the money of all.
        """

        def change(budget: Budget, ledger: Ledger, now: datetime) -> Ledger:
            amount, may = budget.amount(turn.need), grant and budget.error is None
            warns = budget.spec.on_exceeded == "Warn"
            return taken(ledger, turn, amount, budget.limit, grant=may, warns=warns)

        async with self._locks[namespace]:
            await self._settle(namespace, change)
            return all(has_money(each.ledger, turn) for each in self._of(namespace))

    async def release(self, namespace: str, turn: Turn) -> None:
        """Charge what a session has cost that sleeps or is gone, and put nothing aside for it."""
        if not self.holds(namespace, turn.uid):
            return

        def change(budget: Budget, ledger: Ledger, now: datetime) -> Ledger:
            return released(ledger, turn, budget.amount(turn.need))

        async with self._locks[namespace]:
            await self._settle(namespace, change)

    def holds(self, namespace: str, uid: str) -> bool:
        """Whether a task or a session has an entry in any ledger of its namespace."""
        return any(uid in budget.ledger.held for budget in self._cache.of(namespace))

    def held_by(self, namespace: str, uid: str) -> Budgeted | None:
        """Of which budget a task that is at work has its money; None when of none."""
        found = (held_by(budget, uid) for budget in self._cache.of(namespace))
        return max(filter(None, found), key=lambda said: said.reason != "Reserved", default=None)

    def wait(self, key: Key, need: Need) -> None:
        """A task waits for a budget of its namespace; it is told when it may fit."""
        self._waiting.setdefault(key.namespace, {})[key] = need

    def leave(self, key: Key) -> None:
        """A task waits for no budget."""
        waiting = self._waiting.get(key.namespace, {})
        if waiting.pop(key, None) is not None and not waiting:
            del self._waiting[key.namespace]

    async def reserve(self, namespace: str, need: Need) -> bool:
        """Put aside what an attempt needs, in every budget of its namespace or in none.

        Returns:
            Whether it has it all. Where it has not, somebody else was quicker.

        Raises:
            RefusedError: The operator may not write that.
            ApiError: The API server could not answer.
        """
        if not self._of(namespace):
            return True
        async with self._locks[namespace]:
            for budget in self._of(namespace):
                await self._change(namespace, budget.name, _granted(need))
            missing = [
                budget.name
                for budget in self._of(namespace)
                if (held := budget.ledger.held.get(need.uid)) is None
                or held.attempt != need.attempt
            ]
            if missing:
                await self._settle(namespace, _settled(need.uid, need.attempt, 0))
            return not missing

    async def settle(
        self,
        namespace: str,
        uid: str,
        attempt: int | None,
        usd: float | None,
        *,
        least: bool = False,
    ) -> None:
        """Put what an attempt has cost in the place of its reservation; see `ledger.settle`."""
        if not self.holds(namespace, uid):
            return
        cost = None if usd is None else micros(usd)
        async with self._locks[namespace]:
            await self._settle(namespace, _settled(uid, attempt, cost, least=least))

    async def run(self) -> None:
        """Keep every budget's status as it should be, for ever: a period ends without an event."""
        while True:
            for namespace, name in self._cache:
                try:
                    async with self._locks[namespace]:
                        await self._change(namespace, name, self._without_orphans(namespace))
                except (ApiError, RefusedError, *TRANSPORT_ERRORS) as error:
                    log.info("budget not tended", budget=f"{namespace}/{name}", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(_TEND_SECONDS):
                    await self._due.wait()
            self._due.clear()

    def _again(self, namespace: str) -> float:
        return max(_TEND_SECONDS, len(self._waiting.get(namespace, ())) / _ASKED_A_SECOND)

    def _of(self, namespace: str, most: int = MOST_BUDGETS) -> list[Budget]:
        """The budgets of a namespace that count; what others hold is charged by `run`."""
        return self._cache.of(namespace)[:most]

    async def _settle(self, namespace: str, change: Change) -> None:
        for budget in self._of(namespace):
            await self._change(namespace, budget.name, change)

    async def _change(self, namespace: str, name: str, change: Change) -> None:
        """Write a ledger that follows from the one that is stored."""
        for _ in range(_TRIES):
            budget, now = self._cache.get(namespace, name), self._clock()
            if budget is None:
                return
            after = change(budget, budget.now(now), now)
            status = status_of(budget, after, now)
            body = merge_patch(budget.stored, status.to_api())
            if not body:
                return
            self._allowed()
            meta = {"namespace": namespace, "name": name, "uid": budget.uid}
            if (near := near_event(budget, status)) is not None:
                await self._events.post({"kind": "AgentBudget", "metadata": meta}, near, now)
            version = {"resourceVersion": budget.version}
            try:
                stored = await self._kube.patch_status(
                    AGENT_BUDGETS, namespace, name, {"metadata": version, "status": body}
                )
            except ApiError as error:
                if error.status == 403:
                    raise RefusedError(error.refusal()) from None
                if error.status not in (404, 409):
                    raise
                if not await fetch(self._kube, AGENT_BUDGETS, self._cache, namespace, name):
                    self._cache.remove({"metadata": meta})
                continue
            self._cache.put(stored)
            if after.used < budget.ledger.used:
                self._wake(namespace)
            return
        raise ApiError(409, "Conflict", f"AgentBudget {name} is changed all the time")

    def _without_orphans(self, namespace: str) -> Change:
        """Charge what is held for who is gone: whether it was at work, nobody can say."""

        def change(budget: Budget, ledger: Ledger, now: datetime) -> Ledger:
            for uid, held in budget.ledger.held.items():
                kind = "AgentTask" if held.counted is None else "POSession"
                there, _ = self._kinds[kind]
                if not there(Key(namespace, held.task, kind), uid):
                    ledger = settle(ledger, uid, held.attempt, None)
            return ledger

        return change

    def _enqueue(self, key: Key) -> None:
        _, enqueue = self._kinds[key.kind]
        enqueue(key)

    def _changed(self, namespace: str) -> None:
        for key in list(self._waiting.get(namespace, ())):
            self._enqueue(key)
        self._due.set()

    def _wake(self, namespace: str) -> None:
        """Tell as many of those that wait as there is room for, who waits longest first."""
        budgets = [each for each in self._of(namespace) if each.spec.on_exceeded != "Warn"]
        room = {budget.name: budget.limit - budget.ledger.used for budget in budgets}
        for key, need in list(self._waiting.get(namespace, {}).items()):
            if all(budget.amount(need) <= room[budget.name] for budget in budgets):
                room = {each.name: room[each.name] - each.amount(need) for each in budgets}
                self._enqueue(key)


def _granted(need: Need) -> Change:
    """A reservation, where there is room for it or the budget only warns."""

    def change(budget: Budget, ledger: Ledger, now: datetime) -> Ledger:
        room = budget.has_room(need, now)
        if budget.error or not (room or budget.spec.on_exceeded == "Warn"):
            return ledger
        held = Held(need.task, need.attempt, budget.amount(need), not room)
        return reserve(ledger, need.uid, held)

    return change


def _settled(uid: str, attempt: int | None, cost: int | None, *, least: bool = False) -> Change:
    def change(budget: Budget, ledger: Ledger, now: datetime) -> Ledger:
        return settle(ledger, uid, attempt, cost, least=least)

    return change
