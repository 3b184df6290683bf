"""kopf without a memory: nothing of an object's metadata is read, and nothing is written there.

kopf keeps what it saw last and how far its handlers are in annotations, and reads both at every
event, also where there are only `on.event` handlers that need neither. Annotations are written by
whoever may write the object: what is no JSON there would end the event before it reached us.
"""

from typing import Any

import kopf

NO_FINALIZER = ""
"""No object can have it: the API server takes qualified names only. So kopf never removes one."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Every object looks as if it had never been seen, and as if nothing were worth comparing."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return an empty essence, without a deep copy of the object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return that nothing was seen before."""
        return None

    def store(self, **_: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """No handler of ours is called in several goes."""

    def fetch(self, **_: Any) -> None:
        """Return that no handler has begun."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""

    def purge(self, **_: Any) -> None:
        """There is nothing to purge."""

    def touch(self, **_: Any) -> None:
        """Change nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence, which has nothing of ours in it."""
        return essence
