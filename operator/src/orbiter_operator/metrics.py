"""Everything that the operator counts, in one registry."""

from orbiter_operator.runtime.metrics import OPERATOR_GAUGES, Metrics, Spending
from orbiter_operator.sessions.metrics import GAUGES as SESSION_GAUGES
from orbiter_operator.sessions.metrics import SessionMetrics
from orbiter_operator.tasks.metrics import TaskMetrics

GAUGES = OPERATOR_GAUGES | SESSION_GAUGES


class OperatorMetrics(Metrics):
    """The metrics of the process and of both kinds of objects."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = TaskMetrics(self.registry, spending := Spending(self.registry))
        self.sessions = SessionMetrics(self.registry, spending=spending)
