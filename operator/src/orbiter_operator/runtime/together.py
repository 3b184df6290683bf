"""Run the parts of the operator side by side, and end them all for certain.

A task group would do, if every cancellation arrived: up to Python 3.11 `asyncio.wait_for` loses one
that comes at the moment its task is done, and both redis and kopf use it. So parts are cancelled
again until they are gone.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

_AGAIN_SECONDS = 0.25


async def run_together(parts: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Run until the first part ends, which none should, or until cancelled; then end the others.

    Args:
        parts: What to run, by name.

    Raises:
        Exception: What the first part that ended raised.
        RuntimeError: It ended without a reason.
    """
    tasks = {asyncio.create_task(part, name=name) for name, part in parts.items()}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(tasks)
    for task in done:
        task.result()
        raise RuntimeError(f"{task.get_name()} has ended")


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they are gone, even if whoever waits for that is cancelled too."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        try:
            _, pending = await asyncio.wait(pending, timeout=_AGAIN_SECONDS)
        except asyncio.CancelledError:
            pending = {task for task in pending if not task.done()}
