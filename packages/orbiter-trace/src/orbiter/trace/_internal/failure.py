"""What is told of an error: its type always, its text and traceback only as content."""

import traceback
from typing import Any, NamedTuple

from orbiter.trace._internal.content import redacted


class Failure(NamedTuple):
    """An error without a reference to the frames it came through."""

    type: str
    message: str | None
    stacktrace: str | None

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the `exception` event."""
        told = {
            "exception.type": self.type,
            "exception.message": self.message,
            "exception.stacktrace": self.stacktrace,
        }
        return {key: value for key, value in told.items() if value is not None}


def failure_of(error: BaseException, content: bool) -> Failure:
    """Note an error."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    if not content:
        return Failure(name, None, None)
    lines = traceback.format_exception(error)
    return Failure(name, redacted(str(error)), redacted("".join(lines)))
