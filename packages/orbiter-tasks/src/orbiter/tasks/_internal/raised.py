"""What errors say, and whose they are: an agent's own, or done to what awaits the agent."""

import asyncio
from typing import Any

from pydantic import ValidationError

from orbiter.tasks._keepable import shortened


class Boundary:
    """Made where an agent is about to be awaited, asked where it has raised."""

    def __init__(self) -> None:
        self._task = _current()
        self._cancelled = 0 if self._task is None else self._task.cancelling()

    def is_own(self, error: BaseException) -> bool:
        """Say whether the agent raised it: nobody has cancelled or closed what awaits it."""
        if isinstance(error, asyncio.CancelledError):
            return self._task is not None and self._task.cancelling() <= self._cancelled
        if isinstance(error, GeneratorExit):
            # a coroutine is closed from outside of its task
            return self._task is not None and _current() is self._task
        return True


def reason(error: BaseException) -> str:
    """Return what to write down as a task's error. It never raises."""
    try:
        said = str(error)
        named = repr(error)
    except Exception:
        said, named = "", f"{type(error).__name__} (it cannot say more)"
    if isinstance(error, Exception):
        return shortened(said or named)
    if isinstance(error, asyncio.CancelledError):
        return shortened(f"the agent raised {named} by itself: nobody had cancelled its task")
    return shortened(f"the agent raised {named}")


def why(error: ValidationError) -> str:
    """Say what is wrong with stored values, without the values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = [
        f"{'.'.join(str(part)[:50] for part in fault['loc'])}: {fault['msg'][:200]}".lstrip(": ")
        for fault in faults[:3]
    ]
    return "; ".join(told)


def _current() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
