"""OpenTelemetry's current span, without the detours of its public functions.

They are used once, here, to learn the key and the context variable they work with; a program that
has plugged in another context mechanism gets the public functions themselves.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any

from opentelemetry import context, trace

[KEY] = trace.set_span_in_context(trace.INVALID_SPAN, context.Context())


def _ways() -> tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], None]]:
    token: Any = context.attach(context.get_current())
    context.detach(token)
    if not isinstance(token, Token):
        return context.get_current, context.attach, context.detach
    variable: ContextVar[Any] = token.var
    try:
        variable.get()
    except LookupError:
        return context.get_current, variable.set, variable.reset
    return variable.get, variable.set, variable.reset


get_context, set_context, reset_context = _ways()
