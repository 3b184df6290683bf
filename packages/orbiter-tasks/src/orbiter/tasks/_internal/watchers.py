"""Who wants to know of changes in a store."""

import logging
from collections.abc import Callable

from orbiter.tasks.contract import Change

logger = logging.getLogger("orbiter.tasks")


class Watchers:
    """A list of functions; what one of them raises is logged and harms nobody."""

    def __init__(self) -> None:
        self._functions: list[Callable[[Change], None]] = []

    def add(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Add a function and return what removes it."""
        self._functions.append(watcher)
        return lambda: self._functions.remove(watcher)

    def tell(self, change: Change) -> None:
        """Call all of them."""
        for watcher in list(self._functions):
            try:
                watcher(change)
            except Exception:
                logger.exception("a watcher failed on a change of task %s", change.task_id)
