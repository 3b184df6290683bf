"""Who may send now: few of a namespace at a time, and fewer of one receiver. Pure but for memory.

So a receiver that takes its time holds up its own namespace's others by a half at most, and no
other namespace's at all.
"""

from collections import Counter, defaultdict
from typing import Final

from orbiter_triggers.courier.notify.models import Lane

OF_A_NAMESPACE: Final = 4
OF_A_RECEIVER: Final = 2


class Turns:
    """Counts who sends, and keeps who has to wait."""

    def __init__(self) -> None:
        self._namespaces: Counter[str] = Counter()
        self._receivers: Counter[tuple[str, str]] = Counter()
        self._held: defaultdict[str, dict[str, dict[Lane, None]]] = defaultdict(dict)

    def enter(self, lane: Lane) -> bool:
        """Whether a lane may send; if not, `leave` will name it."""
        if not self._has_room(lane.namespace, lane.sink):
            self._held[lane.namespace].setdefault(lane.sink, {})[lane] = None
            return False
        self._namespaces[lane.namespace] += 1
        self._receivers[lane.namespace, lane.sink] += 1
        return True

    def leave(self, lane: Lane) -> Lane | None:
        """A lane has sent. Returns one that may ask again, if one waits for that."""
        namespace = lane.namespace
        self._namespaces[namespace] -= 1
        self._receivers[namespace, lane.sink] -= 1
        self._namespaces, self._receivers = +self._namespaces, +self._receivers
        held = self._held[namespace]
        for sink in list(held):
            if self._has_room(namespace, sink):
                waiting = held.pop(sink)
                found = next(iter(waiting))
                del waiting[found]
                if waiting:
                    held[sink] = waiting  # behind the others
                return found
        if not held:
            del self._held[namespace]
        return None

    def _has_room(self, namespace: str, sink: str) -> bool:
        return (
            self._namespaces[namespace] < OF_A_NAMESPACE
            and self._receivers[namespace, sink] < OF_A_RECEIVER
        )
