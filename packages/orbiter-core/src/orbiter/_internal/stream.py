"""The stream of a run's events: the run goes on only as far as its reader has read.

The run is a task of its own. After each event it waits until the reader asks for the next one, so
a reader who stops at a tool call stops the tool as well.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Self

from orbiter._internal.state import Emit, RunState
from orbiter.types import ErrorEvent, OutputT, ResultEvent, RunResult, StreamEvent

Begin = Callable[[Emit], RunState]
Execute = Callable[[RunState], Coroutine[Any, Any, RunResult]]


class _Channel:
    """What the run's task and its reader share; the task must not keep the reader alive."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self.result: RunResult | None = None

    async def emit(self, event: StreamEvent) -> None:
        await self.queue.put(event)
        await self.queue.join()


class RunStream(AsyncIterator[StreamEvent], Generic[OutputT]):
    """Iterate over it with `async for`; stop whenever you like, the run is cancelled then.

    Attributes:
        result: The result once the run is over; after an error or a cancellation what there was
            up to then, with every tool call answered. None while the run goes on.
    """

    def __init__(self, begin: Begin, execute: Execute) -> None:
        self._begin = begin
        self._execute = execute
        self._channel: _Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._reading = False

    @property
    def result(self) -> RunResult[OutputT] | None:
        """See the class."""
        return self._channel.result if self._channel else None

    async def __anext__(self) -> StreamEvent:
        if self._channel is None or self._task is None:
            self._channel = _Channel()
            self._task = asyncio.create_task(_produce(self._channel, self._begin, self._execute))
            # whoever leaves before the end does not want to hear of later errors
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        elif self._reading:
            self._reading = False
            self._channel.queue.task_done()
        if self._task.done() and self._channel.queue.empty():
            raise StopAsyncIteration
        event = await self._channel.queue.get()
        self._reading = True
        if event is not None:
            return event
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the run and wait until it has cleaned up; nothing happens when it is over."""
        if self._task is None or self._task.done():
            return
        self._task.cancel()
        await asyncio.wait([self._task])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        task = self._task
        if task is not None and not task.done() and not task.get_loop().is_closed():
            task.cancel()


async def _produce(channel: _Channel, begin: Begin, execute: Execute) -> None:
    state = begin(channel.emit)
    try:
        channel.result = await execute(state)
        await channel.emit(ResultEvent(result=channel.result))
    except asyncio.CancelledError:
        channel.result = channel.result or state.result("", "cancelled")
        raise
    except Exception as error:
        channel.result = state.result("", "error")
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            # who has cancelled reads no more, and the event would wait for its reader
            await channel.emit(ErrorEvent(error=str(error), agent_name=state.last_agent))
        raise
    finally:
        channel.queue.put_nowait(None)
