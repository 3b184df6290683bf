"""What sessions' turns do to the ledger of an AgentBudget, in whatever order things happen."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbiter_contracts import POState
from orbiter_operator.budgets.decide import Budget, held_by
from orbiter_operator.budgets.ledger import (
    Counted,
    Held,
    Ledger,
    at,
    micros,
    read,
    reserve,
    written,
)
from orbiter_operator.budgets.models import Budgeted, BudgetSpec, BudgetStatus
from orbiter_operator.budgets.turns import Turn, charged, has_money, released, taken
from orbiter_operator.pods.state import PodState
from orbiter_operator.sessions.charges import turn_of
from orbiter_operator.sessions.models import (
    DeploymentState,
    ObservedSession,
    QueueState,
    SessionSpec,
    SessionStatus,
)
from orbiter_operator.sessions.plan import SetReplicas, plan_session

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EMPTY = Ledger(NOW - timedelta(days=9), NOW + timedelta(days=9), 0, {}, 0)
LIMIT, USUAL = micros(10), micros(1)


def session(replicas=0, *pods, spec=None, **fields):
    deployed = DeploymentState(name="alice", uid="d", owner="s", replicas=replicas, template="t")
    return ObservedSession(
        **{
            "namespace": "team",
            "name": "alice",
            "uid": "s",
            "generation": 1,
            "created": NOW - timedelta(days=1),
            "worker_id": "team.alice",
            "spec": SessionSpec.model_validate({"userId": 7, **(spec or {})}),
            "status": SessionStatus(),
            "template": "t",
            "deployment": deployed,
            "pods": pods,
            **fields,
        }
    )


def queue(**fields):
    return QueueState(message_at=NOW - timedelta(seconds=10), **fields)


def running():
    began = NOW - timedelta(seconds=50)
    pod = {"name": "alice-x", "owner": "s", "created": began, "phase": "Running"}
    return PodState(**pod, running_since=began)


def said(state="ready"):
    return POState(state=state, ready_at=NOW - timedelta(seconds=49))


def decide(observed):
    return plan_session(observed, NOW, image_patience=timedelta(minutes=5))


def turn(number=1, usd=0.0, unpriced=0, uid="s", most=None):
    return Turn(uid, "alice", number, most, Counted(micros(usd), unpriced))


def take(ledger, wanted, *, amount=USUAL, limit=LIMIT, grant=True, warns=False):
    return taken(ledger, wanted, amount, limit, grant=grant, warns=warns)


def test_an_awake_session_holds_the_money_of_one_turn():
    once = take(EMPTY, turn(3))
    assert once.held == {"s": Held("alice", 3, USUAL, False, Counted(0, 0))}
    assert (once.spent, once.reserved) == (0, USUAL)
    assert take(once, turn(3)) == once
    assert has_money(once, turn(3))
    assert not has_money(once, turn(4))


def test_what_it_has_cost_is_spent_once_and_the_next_turn_reserved_in_the_same_write():
    once = take(EMPTY, turn(1, usd=5))
    assert once.spent == 0, "what was spent before there was a budget is none of it"
    twice = take(once, turn(2, usd=5.25))
    assert (twice.spent, twice.reserved) == (micros(0.25), USUAL)
    assert take(twice, turn(2, usd=5.25)) == twice


def test_a_turn_whose_cost_nobody_knows_has_cost_its_reservation():
    once = take(EMPTY, turn(1, most=0.3), amount=micros(0.3))
    twice = take(once, turn(2, unpriced=1), amount=micros(7))
    assert (twice.spent, twice.held["s"].micros) == (micros(0.3), micros(7))


def test_a_session_that_sleeps_holds_nothing():
    once = take(EMPTY, turn())
    asleep = released(once, turn(2, usd=0.5), USUAL)
    assert (asleep.spent, asleep.reserved, asleep.held) == (micros(0.5), 0, {})
    assert released(asleep, turn(2, usd=0.5), USUAL) == asleep


def test_without_room_nothing_is_held_and_what_the_turn_has_cost_is_spent():
    full = EMPTY._replace(spent=micros(9.5))
    denied = take(full, turn(4))
    assert denied.held["s"] == Held("alice", 3, 0, False, Counted(0, 0))
    assert not has_money(denied, turn(4))
    later = take(denied, turn(5, usd=0.25))
    assert (later.spent, later.reserved) == (micros(9.75), 0)
    again = take(later, turn(5, usd=0.25), limit=micros(20))
    assert has_money(again, turn(5))


def test_where_another_budget_has_no_room_nothing_new_is_held_and_nothing_taken_away():
    once = take(EMPTY, turn())
    assert take(once, turn(), grant=False) == once
    over = take(once, turn(2), grant=False)
    assert (over.reserved, has_money(over, turn(2))) == (0, False)


def test_a_budget_that_only_warns_holds_it_all_the_same():
    warned = take(EMPTY, turn(), limit=0, warns=True)
    assert warned.held["s"].over
    assert has_money(warned, turn())


def test_a_redis_that_has_lost_its_data_has_the_worker_count_anew():
    once = take(EMPTY, turn(9, usd=5, unpriced=4))
    anew = charged(once, turn(1, usd=0.25), USUAL)
    assert (anew.spent, anew.held["s"].counted) == (micros(0.25), Counted(micros(0.25), 0))


def test_whatever_a_worker_says_the_ledger_can_be_written_and_read_again():
    once = take(EMPTY, turn())
    strange = turn(2**53, usd=1e300, unpriced=2**53)
    ledger = take(once, strange)
    status = written(ledger, LIMIT, BudgetStatus()).to_api()
    assert read(BudgetStatus.model_validate(status)) == ledger
    assert status["reservations"]["s"]["attempt"] < 2**31


def test_a_task_has_no_account_of_a_session_and_a_session_no_end_of_a_task():
    task = reserve(EMPTY, "t", Held("fix", 1, USUAL))
    assert "session" not in written(task, LIMIT, BudgetStatus()).to_api()["reservations"]["t"]
    assert charged(task, turn(uid="t", usd=5), USUAL) == task


def test_a_full_ledger_takes_no_session_more():
    full = EMPTY._replace(held={str(n): Held("fix", 1, 0) for n in range(2000)})
    assert take(full, turn(), warns=True) == full


@pytest.mark.parametrize(
    ("pending", "said_of", "number", "lost"),
    [
        (0, {}, 1, 0),
        (0, {"asked": 4, "settled": 4}, 5, 0),
        (1, {"asked": 4, "settled": 4}, 5, 0),
        (1, {"asked": 4, "settled": 3}, 4, 0),
        (0, {"asked": 4, "settled": 3}, 5, 1),
    ],
    ids=["new", "between", "a message that it died of", "in a turn", "in one that was withdrawn"],
)
def test_which_turn_a_session_asks_money_for(pending, said_of, number, lost):
    observed = session(1, queue=QueueState(pending=pending, state=POState(**said_of)))
    found = turn_of(observed, observed.queue)
    assert (found.number, found.told.unpriced) == (number, lost)
    assert turn_of(session(), QueueState()).number == 1


class Conversation:
    """A worker, its stream and its operator, as far as money goes."""

    def __init__(self):
        self.state = POState(turns_allowed=0)
        self.ledger, self.now, self.spent = EMPTY, NOW, 0
        self.undelivered = self.pending = 0
        self.awake = self.cut = False
        self.limit, self.usual = micros(5), micros(1)
        self.most_allowed = 0

    def seen(self):
        state = QueueState(undelivered=self.undelivered, pending=self.pending, state=self.state)
        observed = session(int(self.awake), queue=state)
        return turn_of(observed, state)

    def write(self, ledger):
        self.spent += ledger.spent - self.ledger.spent
        self.ledger = ledger
        assert ledger.used <= self.limit
        assert ledger.reserved == sum(each.micros for each in ledger.held.values())

    def update(self, **changes):
        self.state = self.state.model_copy(update=changes)

    @property
    def under_way(self):
        return self.state.asked > self.state.settled and self.pending > 0

    def operate(self, *, killed=False):
        """A pass of the operator; killed, it writes the ledger and does nothing more."""
        wanted = self.seen()
        after = charged(self.ledger, wanted, self.usual)
        room = has_money(after, wanted) or after.used + self.usual <= self.limit
        waits = self.undelivered + self.pending > 0
        if not (self.awake or (waits and room)):
            if not self.under_way:
                self.write(released(self.ledger, wanted, self.usual))
            return
        self.write(taken(self.ledger, wanted, self.usual, self.limit, grant=room, warns=False))
        if killed:
            return
        has = has_money(self.ledger, wanted)
        self.update(turns_allowed=wanted.number if has else wanted.number - 1)
        self.most_allowed = max(self.most_allowed, self.state.turns_allowed)
        self.awake = has or self.under_way

    def begin(self):
        state = self.state
        if not self.awake:
            return
        if state.asked > state.settled and not self.pending:
            self.update(settled=state.asked, unpriced=state.unpriced + 1)
        elif state.asked > state.settled and not self.cut:
            return
        state = self.state
        self.cut = False
        if self.pending == 0 and self.undelivered:
            if state.asked < state.turns_allowed:
                self.undelivered, self.pending = self.undelivered - 1, 1
                self.update(asked=state.asked + 1)
        elif self.pending and state.asked == state.settled < state.turns_allowed:
            self.update(asked=state.asked + 1)

    def end(self, usd):
        """The turn is answered, with a cost or without one."""
        if self.awake and self.under_way:
            cost = {"unpriced": self.state.unpriced + 1} if usd is None else {}
            if usd is not None:
                cost = {"cost_usd": self.state.cost_usd + usd}
            self.update(settled=self.state.asked, **cost)
            self.pending = 0

    def crash(self):
        """The worker dies; the next one finds that nothing is left of its turn."""
        if self.awake and self.state.asked > self.state.settled and not self.cut:
            self.update(settled=self.state.asked, unpriced=self.state.unpriced + 1)

    def finish(self):
        """Everything that is under way ends, and the session sleeps."""
        self.cut = False
        if self.awake:
            self.end(0.25)
            self.crash()
        self.undelivered = 0
        self.pending = self.pending if self.under_way else 0
        self.operate()
        self.awake = False
        self.pending = 0
        self.operate()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["message", "pass", "pass", "killed", "begin", "begin", "end", "unknown", "crash",
             "cut", "withdrawn", "period", "asleep"]
        ),
        st.integers(0, 100),
    ),
    max_size=80,
)  # fmt: skip


@given(STEPS)
@settings(max_examples=400)
def test_what_is_charged_is_what_was_published_and_a_reservation_for_each_unknown(steps):
    talk = Conversation()
    for what, cents in steps:
        match what:
            case "message":
                talk.undelivered += 1
            case "pass":
                talk.operate()
            case "killed":
                talk.operate(killed=True)
            case "begin":
                talk.begin()
            case "end":
                talk.end(cents / 100)
            case "unknown":
                talk.end(None)
            case "crash":
                talk.crash()
            case "cut":
                talk.cut = talk.cut or (talk.awake and talk.under_way)
            case "withdrawn":
                talk.pending, talk.cut = 0, False
            case "asleep":
                talk.awake = talk.awake and talk.under_way
            case "period":
                talk.now += timedelta(days=20)
                spec = BudgetSpec(max_cost_usd=5)
                talk.ledger = at(talk.ledger, spec, talk.now)
        assert talk.state.asked <= talk.most_allowed, "a turn that was not paid for"
    talk.finish()
    state = talk.state
    lost = state.asked - state.settled
    assert talk.spent == micros(state.cost_usd) + (state.unpriced + lost) * talk.usual
    assert (talk.ledger.reserved, talk.ledger.held) == (0, {})


def lacking(what, **more):
    text = "needs 1 USD, more than AgentBudget all has left"
    return Budgeted(budget="all", message=text, lacks=what, reason="BudgetExceeded", **more)


@pytest.mark.parametrize("what", ["Queue", "Cancel"])
def test_a_message_that_nobody_pays_for_wakes_nobody_and_says_why(what):
    plan = decide(session(0, queue=queue(undelivered=1), budget=lacking(what, again=7)))
    assert (plan.actions, plan.requeue_after, plan.watch) == ((), 7, "input")
    assert plan.status.phase == "Waiting"
    for kind in ("Available", "BudgetReserved", "Ready"):
        found = plan.status.condition(kind)
        assert (found.status, found.reason) == ("False", "BudgetExceeded")
    assert plan.status.condition("Reconciling") is not None
    [event] = plan.events
    assert (event.reason, event.message) == ("BudgetExceeded", lacking(what).message)
    again = session(0, queue=queue(undelivered=1), budget=lacking(what), status=plan.status)
    assert decide(again).events == ()


def test_a_budget_that_only_warns_keeps_nobody_waiting():
    plan = decide(session(0, queue=queue(undelivered=1), budget=lacking("Warn")))
    assert plan.actions == (SetReplicas(replicas=1),)
    text = "1 USD of AgentBudget all, which had no room for it and only warns"
    over = Budgeted(budget="all", message=text, held=True, reason="BudgetExceeded")
    awake = session(1, running(), queue=queue(state=said()), budget=over)
    plan = decide(awake)
    [event] = plan.events
    assert (event.kind, event.reason, event.message) == ("Warning", "BudgetExceeded", text)
    assert plan.status.condition("BudgetReserved").status == "True"
    assert plan.status.condition("Available").status == "True"
    assert decide(awake.model_copy(update={"status": plan.status})).events == ()


def test_a_turn_is_left_to_end_though_the_next_is_not_paid():
    busy = session(
        1, running(), queue=queue(pending=1, state=said("busy")), budget=lacking("Queue")
    )
    assert decide(busy).actions == ()
    assert decide(busy).status.phase == "Busy"


@pytest.mark.parametrize("waits", [{"undelivered": 1}, {"pending": 1}, {}])
def test_an_awake_session_sleeps_when_its_next_turn_is_not_paid(waits):
    awake = session(1, running(), queue=queue(**waits, state=said()), budget=lacking("Queue"))
    assert decide(awake).actions == (SetReplicas(replicas=0),)


def test_a_suspended_session_says_so_and_nothing_of_its_money():
    spec = {"operatingMode": "Suspended"}
    plan = decide(session(0, spec=spec, queue=queue(undelivered=1), budget=lacking("Queue")))
    assert plan.status.phase == "Suspended"
    assert plan.status.condition("BudgetReserved") is None


def test_a_session_with_its_money_says_of_which_budget():
    ledger = take(EMPTY, turn())
    meta = {"name": "all", "uid": "b", "resourceVersion": "5"}
    told = held_by(Budget.of({"metadata": meta})._replace(ledger=ledger), "s")
    plan = decide(session(1, running(), queue=queue(state=said()), budget=told))
    found = plan.status.condition("BudgetReserved")
    assert (found.status, found.message) == ("True", "1 USD of AgentBudget all")
