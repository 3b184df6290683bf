"""The sessions' metrics, and how long each stage of a wake-up took.

A wake-up is timed where the operator stands: a message is seen, the Deployment is scaled, the pod
has a node, its container runs, the worker is ready, the first part of an answer is there. The
worker's own times come from its state, by the clock of its node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram

from orbiter_contracts import POState
from orbiter_contracts.po_state import RotationReason
from orbiter_contracts.usage import TaskUsage
from orbiter_operator.kube.names import Key
from orbiter_operator.runtime.metrics import Spending
from orbiter_operator.sessions.models import ObservedSession, SessionStatus
from orbiter_operator.sessions.streams import entry_time

STAGES = ("seen", "scaled", "scheduled", "started", "ready", "first_output")
"""What each stage ends with; it begins where the one before has ended, the first with the XADD."""
TOTAL = "total"
_BUCKETS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
GAUGES = {
    "orbiter_sessions": "POSessions reconciled",
    "orbiter_sessions_awake": "POSessions with a pod",
    "orbiter_sessions_asleep": "POSessions without one, suspended ones among them",
    "orbiter_sessions_failed": "POSessions whose worker cannot run",
}
_AWAKE = ("Waking", "Ready", "Busy")
_ROTATION_REASONS = ("", *get_args(RotationReason))
"""Those with a time series of their own: a worker may say any word."""


@dataclass
class _Wake:
    """One wake-up: the time at which the last stage so far has ended."""

    began: datetime
    last: datetime
    stage: int = 0


class SessionMetrics:
    """Counts what happens to sessions.

    Args:
        registry: Where the metrics are registered.
        clock: The time.
        spending: Counts by namespace, agent and model.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        spending: Spending | None = None,
    ) -> None:
        self._spending = spending
        self._clock = clock
        self._wakes: dict[Key, _Wake] = {}
        self._phases: dict[Key, str] = {}
        self._wake = Histogram(
            "orbiter_session_wake_seconds",
            "How long each stage of waking a session took, and all of them",
            ("stage",),
            registry=registry,
            buckets=_BUCKETS,
        )
        self._turns = Counter("orbiter_session_turns_total", "Messages answered", registry=registry)
        self._rotations = Counter(
            "orbiter_session_rotations_total",
            "New sessions begun by a worker",
            ("reason",),
            registry=registry,
        )
        self._given_up = Counter(
            "orbiter_session_messages_given_up_total",
            "Messages answered with an error and moved to the dead letters",
            registry=registry,
        )
        self._disruptions = Counter(
            "orbiter_session_disruptions_total",
            "Pods of sessions that the cluster took away",
            ("reason",),
            registry=registry,
        )
        self._tokens = Counter(
            "orbiter_session_tokens_total", "Tokens of models", ("direction",), registry=registry
        )
        self._cost = Counter(
            "orbiter_session_cost_usd_total", "US dollars that agents reported", registry=registry
        )

    def message(self, key: Key, entry: str) -> None:
        """The first message for a sleeping session was seen."""
        now = self._clock()
        sent = min(entry_time(entry) or now, now)
        self._wakes[key] = _Wake(sent, sent)
        self._reach(key, 0, now)

    def scaled(self, key: Key, replicas: int) -> None:
        """The API server has accepted a session's number of pods."""
        if replicas:
            self._reach(key, 1, self._clock())
        else:
            self._wakes.pop(key, None)

    def observed(self, key: Key, observed: ObservedSession) -> None:
        """A session was observed: how far has its wake-up come?"""
        wake, pod = self._wakes.get(key), observed.pod
        if wake is None:
            return
        now = self._clock()
        state = (observed.queue.state if observed.queue else None) or POState()
        if pod is not None and pod.node:
            self._reach(key, 2, now)
        if pod is not None and pod.running_since is not None:
            self._reach(key, 3, now)
        if state.ready_at is not None and state.ready_at >= wake.began:
            self._reach(key, 4, state.ready_at)
        if state.first_output_at is not None and state.first_output_at >= wake.began:
            self._reach(key, 5, state.first_output_at)

    def phase(self, key: Key, phase: str | None) -> None:
        """A session's phase is this."""
        self._phases[key] = phase or ""

    def changed(self, key: Key, observed: ObservedSession, status: SessionStatus) -> None:
        """A session's status was written."""
        old = observed.status
        self._turns.inc(_more(old.turns, status.turns))
        self._given_up.inc(_more(old.dead_letters, status.dead_letters))
        state = observed.queue.state if observed.queue else None
        if rotations := _more(old.rotations, status.rotations):
            reason = state.rotation.reason if state and state.rotation else ""
            known = reason if reason in _ROTATION_REASONS else "Other"
            self._rotations.labels(known).inc(rotations)
        if disruptions := _more(old.disruptions, status.disruptions):
            reason = status.last_disruption.reason if status.last_disruption else ""
            self._disruptions.labels(reason).inc(disruptions)
        before, after = old.usage or TaskUsage(), status.usage or TaskUsage()
        self._tokens.labels("input").inc(_more(before.input_tokens, after.input_tokens))
        self._tokens.labels("output").inc(_more(before.output_tokens, after.output_tokens))
        self._cost.inc(max((after.cost_usd or 0.0) - (before.cost_usd or 0.0), 0.0))
        if self._spending:
            self._spending.spent(
                *(before, after),
                namespace=observed.namespace,
                agent=observed.spec.agent.type,
                model=observed.spec.agent.model,
                outcome="answered",
            )

    def forget(self, key: Key) -> None:
        """The session is gone."""
        self._wakes.pop(key, None)
        self._phases.pop(key, None)

    def gauges(self) -> dict[str, float]:
        """How many sessions there are, by whether they have a pod."""
        phases = list(self._phases.values())
        awake = sum(phase in _AWAKE for phase in phases)
        failed = phases.count("Failed")
        return {
            "orbiter_sessions": float(len(phases)),
            "orbiter_sessions_awake": float(awake),
            "orbiter_sessions_asleep": float(len(phases) - awake - failed),
            "orbiter_sessions_failed": float(failed),
        }

    def _reach(self, key: Key, stage: int, when: datetime) -> None:
        """A stage has ended; those in between that nobody saw end count as instant."""
        wake = self._wakes.get(key)
        if wake is None or stage < wake.stage:
            return
        seconds = max((when - wake.last).total_seconds(), 0.0)
        self._wake.labels(STAGES[stage]).observe(seconds)
        wake.last, wake.stage = max(when, wake.last), stage + 1
        if wake.stage == len(STAGES):
            total = max((when - wake.began).total_seconds(), 0.0)
            self._wake.labels(TOTAL).observe(total)
            del self._wakes[key]


def _more(before: int | None, after: int | None) -> int:
    return max((after or 0) - (before or 0), 0)
