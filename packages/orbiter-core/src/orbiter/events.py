"""A small event bus: who wants to know subscribes, who knows emits."""

import inspect
from collections.abc import Callable
from typing import Any

EventHandler = Callable[..., Any]


class EventBus:
    """Calls the handlers of an event in the order they were added."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[EventHandler]] = {}

    def on(self, event: str, handler: EventHandler) -> None:
        """Add a handler, sync or async; it is called with the keywords given to `emit`."""
        self._handlers.setdefault(event, []).append(handler)

    def off(self, event: str, handler: EventHandler) -> None:
        """Remove the first occurrence of a handler; silent when there is none."""
        handlers = self._handlers.get(event, [])
        if handler in handlers:
            handlers.remove(handler)

    async def emit(self, event: str, **data: Any) -> None:
        """Call the handlers one after the other; what one raises goes to the caller."""
        for handler in list(self._handlers.get(event, ())):
            outcome = handler(**data)
            if inspect.isawaitable(outcome):
                await outcome

    def has_handlers(self, event: str) -> bool:
        """Whether anybody listens to the event."""
        return bool(self._handlers.get(event))

    def clear(self) -> None:
        """Remove all handlers."""
        self._handlers.clear()
