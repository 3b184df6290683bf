"""`trace_span`: a span of the user's own, around any block of code."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from orbiter.trace._internal.active import active_tracer


class SpanHandle(Protocol):
    """What `with trace_span(...) as span` gives; with tracing on it is an OpenTelemetry span."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Say more about the span: text, numbers, truth values or lists of one of these."""
        ...

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Note that something happened now."""
        ...

    def record_exception(self, exception: BaseException) -> None:
        """Note an exception that was dealt with."""
        ...


class _Off:
    """The span while tracing is off."""

    def set_attribute(self, key: str, value: Any) -> None: ...

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None) -> None: ...

    def record_exception(self, exception: BaseException) -> None: ...


_OFF = _Off()


class trace_span:  # noqa: N801 - used like a function
    """Open a span: `with trace_span("load") as span:`, or `async with`.

    It nests under the span around it, whoever made that. While tracing is off it does nothing.
    """

    __slots__ = ("_attributes", "_name", "_scope")

    def __init__(self, name: str, attributes: Mapping[str, Any] | None = None) -> None:
        """Name the span.

        Args:
            name: The same for all spans of a kind; what differs belongs into attributes.
            attributes: What is known from the start; recorded as given, so no secrets.
        """
        self._name = name
        self._attributes = attributes
        self._scope: Any = None

    def __enter__(self) -> SpanHandle:
        tracer = active_tracer()
        if tracer is None:
            return _OFF
        self._scope = scope = tracer.span(self._name, self._attributes)
        scope.__enter__()
        span: SpanHandle = scope.span
        return span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(kind, error, trace)

    async def __aenter__(self) -> SpanHandle:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)
