"""What the courier sees of the cluster: AgentTriggers, and the tasks that they have made."""

from collections.abc import Callable

from orbiter_operator.kube.cache import ObjectCache
from orbiter_operator.kube.names import Key
from orbiter_triggers.naming import KIND


class CourierCache:
    """Both.

    Args:
        task_changed: Called with the key of a task that is new, has changed or is gone.
    """

    def __init__(self, task_changed: Callable[[Key], None]) -> None:
        self.triggers = ObjectCache(KIND, lambda key: None)
        self.tasks = ObjectCache("AgentTask", task_changed)
