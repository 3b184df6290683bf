"""A poison message: one that each worker who had it died of. It is answered without its agent."""

from typing import Final

from worker_wrapper.queue.streams import Entry

POISONED_DELIVERIES: Final = 3
"""A message delivered so often is not tried again: each worker that had it before died of it."""


def poisoned(entry: Entry, *, cuts: int = 0) -> str | None:
    """Why an entry is not tried again; None for one that is no poison.

    Args:
        entry: What was delivered.
        cuts: How many of its deliveries the cluster cut off; they say nothing against it.
    """
    if entry.deliveries - cuts < POISONED_DELIVERIES:
        return None
    return (
        f"the message was delivered {entry.deliveries} times and never answered: "
        "each worker that had it crashed or was lost"
    )
