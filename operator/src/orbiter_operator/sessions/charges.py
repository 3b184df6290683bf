"""What a POSession's turns cost its namespace's budgets: each is paid for before it may begin.

In this order, which no crash can break. What the worker has said of its cost is charged, and the
money of one turn put aside, in one write of each ledger. Then the worker is told how many turns it
may begin, and only then it is woken. So it has begun none that was not paid for, and whoever is
killed between two of these steps does them again, to no effect. A session that sleeps has nothing
put aside, but for a turn that was cut off and waits to go on.
"""

from collections.abc import Callable
from datetime import datetime

from orbiter_contracts import POState
from orbiter_contracts.agent_types import keeps_cost
from orbiter_operator.budgets.ledger import Counted, micros
from orbiter_operator.budgets.models import Budgeted
from orbiter_operator.budgets.store import Budgets
from orbiter_operator.budgets.turns import Turn
from orbiter_operator.kube.names import Key
from orbiter_operator.sessions.models import DUPLICATE_WORKER, ObservedSession, QueueState
from orbiter_operator.sessions.plan import Apply, SessionPlan, SetReplicas
from orbiter_operator.sessions.refusals import Refusals
from orbiter_operator.sessions.streams import Record, SessionQueues


class TurnCharges:
    """Does it.

    Args:
        budgets: What turns may cost, and who has money put aside.
        queues: The sessions' keys in Redis.
        refusals: Answers messages that nobody pays for.
        allowed: Raises unless this replica is the active one.
        clock: The time.
    """

    def __init__(
        self,
        budgets: Budgets,
        queues: SessionQueues,
        refusals: Refusals,
        allowed: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._budgets = budgets
        self._queues = queues
        self._refusals = refusals
        self._allowed = allowed
        self._clock = clock

    def told(self, observed: ObservedSession) -> Budgeted | None:
        """How a session stands to the budgets of its namespace; None while it wants no turn."""
        queue = observed.queue
        if queue is None or not (observed.replicas or queue.waiting):
            return None
        return self._budgets.judge_turn(observed.namespace, turn_of(observed, queue))

    async def before(self, key: Key, observed: ObservedSession, plan: SessionPlan) -> bool:
        """Charge what turns have cost, and put aside what the next one may.

        Returns:
            Whether somebody else was quicker: then it is decided anew.

        Raises:
            RefusedError: The operator may not write budgets.
            ApiError: The API server could not answer.
            RedisError: Redis did not answer.
        """
        queue, space = observed.queue, observed.namespace
        foreign = observed.rival is not None and observed.rival.reason == DUPLICATE_WORKER
        if queue is None or foreign or observed.deleting or observed.refusal is not None:
            return False
        turn = turn_of(observed, queue)
        if plan.status is not None and plan.status.phase == "Waiting":
            self._budgets.wait(key, turn.need)
        else:
            self._budgets.leave(key)
        if not self._budgets.any(space):
            await self._allow(observed, queue, None)
            return False
        wanted = _wants_pod(observed, plan)
        if not (wanted or self._has_pod(observed)):
            if not _under_way(queue):
                await self._budgets.release(space, turn)
            return False
        grant = wanted and not observed.unpaid
        has = await self._budgets.take(space, turn, grant=grant)
        await self._allow(observed, queue, turn.number if has else turn.number - 1)
        return grant and not has

    async def after(self, observed: ObservedSession, plan: SessionPlan) -> bool:
        """Answer the messages of a sleeping session whose budget lets none wait.

        Returns:
            Whether some were answered, so that it has to be observed again.
        """
        told, status = observed.budget, plan.status
        if told is None or told.lacks != "Cancel" or status is None or status.phase != "Waiting":
            return False
        if self._has_pod(observed):
            return False
        self._allowed()
        own, worker = observed.keys, observed.worker_id
        return await self._refusals.answer(
            own, worker, observed.spec.user_id, told.reason, told.message, self._clock()
        )

    async def gone(self, key: Key, uid: str, record: Record) -> None:
        """A session was deleted, and its last pod has ended."""
        self._budgets.leave(key)
        if not self._budgets.holds(key.namespace, uid):
            return
        queue = await self._queues.observe(record, hold=None)
        state = queue.state or POState()
        lost = state.asked > state.settled
        told = Counted(micros(state.cost_usd), state.unpriced + lost)
        turn = Turn(uid, key.name, state.asked + 1, None, told)
        await self._budgets.release(key.namespace, turn)

    def _has_pod(self, observed: ObservedSession) -> bool:
        return any(pod.alive(self._clock()) for pod in observed.pods)

    async def _allow(self, observed: ObservedSession, queue: QueueState, turns: int | None) -> None:
        said = queue.state.turns_allowed if queue.state else None
        if said != turns:
            await self._queues.allow(observed.keys, observed.worker_id, turns)


def turn_of(observed: ObservedSession, queue: QueueState) -> Turn:
    """The turn that a session is in or would begin, and what its worker has said of those before.

    One that is under way without a message has come to nothing, whatever it has cost.
    """
    state = queue.state or POState()
    under_way = _under_way(queue)
    lost = state.asked > state.settled and not under_way
    return Turn(
        uid=observed.uid,
        session=observed.name,
        number=state.asked if under_way else state.asked + 1,
        usd=observed.spec.agent.max_cost_usd,
        told=Counted(micros(state.cost_usd), state.unpriced + lost),
        kept=keeps_cost(observed.spec.agent.type),
    )


def _under_way(queue: QueueState) -> bool:
    """Whether a turn has begun and is not over, so that its message is still held."""
    state = queue.state
    return state is not None and state.asked > state.settled and queue.pending > 0


def _wants_pod(observed: ObservedSession, plan: SessionPlan) -> bool:
    """Whether there is to be a worker when the plan is carried out."""
    for action in plan.actions:
        if isinstance(action, SetReplicas | Apply):
            return action.replicas > 0
    wanted = plan.status.replicas if plan.status else None
    return bool(observed.replicas if wanted is None else wanted)
