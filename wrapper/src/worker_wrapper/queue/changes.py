"""What a worker tells its scripts: changes of a PO's state, and a session record.

How changes travel is said in `orbiter_contracts.worker_scripts`.
"""

from collections.abc import Mapping

Changes = Mapping[str, str]
RecordArguments = tuple[int, bytes, str, str]
"""What WRITE_RECORD takes."""


def flat(changes: Changes) -> tuple[str, ...]:
    """Changes as arguments."""
    return tuple(text for pair in changes.items() for text in pair)
