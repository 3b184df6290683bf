"""Tools: functions and objects a model may call.

`@tool` makes one of a function; a subclass of Tool is one that needs state. Both get their
schema from type hints and docstrings when they are defined, so that a mistake shows up there and
a run pays nothing for it.
"""

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from orbiter._approval import Approval, checked
from orbiter._schema.hints import ToolDefinitionError
from orbiter._schema.methods import is_method, way_to, written_in_class
from orbiter._schema.schema import Signature, ToolArgumentsError
from orbiter._threads import THREADS, within
from orbiter.outputs import as_text
from orbiter.parts import has_parts
from orbiter.types import ToolExecutionError

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "Approval",
    "FunctionTool",
    "Tool",
    "ToolArgumentsError",
    "ToolDefinitionError",
    "tool",
]


class Tool(ABC):
    """A tool with a life of its own; subclasses set `name`, `description` and write `execute`.

    Attributes:
        name: What the model calls it; the class's name when not set.
        description: What it is for; the docstring of `execute` or of the class when not set.
        parameters: JSON schema of its arguments, made from the signature of `execute` unless set.
        approval: Whether a call waits for a person; a class may have a method of that name.
    """

    name: str = ""
    description: str = ""
    approval: Approval = False
    parameters: dict[str, Any]
    _signature: Signature

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "execute" not in cls.__dict__:
            return
        cls.name = cls.name or cls.__name__
        execute = cls.__dict__["execute"]
        if not inspect.iscoroutinefunction(execute):
            raise ToolDefinitionError(f"Tool '{cls.name}': write `async def execute`")
        cls._signature = Signature(execute, cls.name, method=True)
        if "parameters" not in cls.__dict__:
            cls.parameters = cls._signature.parameters
        if not cls.description:
            cls.description = cls._signature.description or inspect.cleandoc(cls.__doc__ or "")

    @abstractmethod
    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work; called with the validated arguments by name.

        Returns:
            Text or a dict; images and documents (`orbiter.parts`), also in a list; any other
            value is shown to the model as JSON.
        """

    @property
    def context_parameter(self) -> str | None:
        """Name of the parameter that takes the RunContext, if there is one."""
        return self._signature.context_parameter

    def parse(self, arguments: str) -> dict[str, Any]:
        """Turn the model's JSON text into arguments for `execute`.

        Raises:
            ToolArgumentsError: The text is no JSON object or does not fit `parameters`.
        """
        return self._signature.parse(arguments)

    def to_schema(self) -> dict[str, Any]:
        """Return the tool as providers are told of it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class FunctionTool(Tool, Generic[P, R]):
    """A function as a tool. Calling it calls the function, as if it were not decorated.

    A method is a tool of the instance it is reached through: `Weather("C").forecast`.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        approval: Approval = False,
        timeout: float | None = None,
    ) -> None:
        """Make a tool of `fn`.

        Args:
            fn: The function, sync or async; a sync one runs in a thread.
            name: What the model calls it, by default the function's name.
            description: What it is for, by default the docstring without its sections.
            approval: Whether a call waits for a person.
            timeout: Seconds a call may take.

        Raises:
            ToolDefinitionError: A parameter cannot be given as JSON, or there is no time.
        """
        if timeout is not None and not timeout > 0:
            raise ToolDefinitionError(f"tool '{name or fn}': timeout={timeout!r}: give seconds")
        self.timeout = timeout
        self._fn: Callable[P, R] = getattr(fn, "__func__", fn) if _is_wrapped(fn) else fn
        self.name = name or str(getattr(self._fn, "__name__", type(fn).__name__))
        self._is_async = inspect.iscoroutinefunction(self._fn) or inspect.iscoroutinefunction(
            getattr(self._fn, "__call__", None)  # noqa: B004
        )
        self._described = description
        self.approval = checked(approval, self.name)
        # what an instance is bound to; None when there is nothing to bind, or no longer
        self._method: Any = None
        self._class = "" if _is_wrapped(fn) else written_in_class(fn)
        self._read(fn if is_method(fn) else None)
        self.__doc__ = fn.__doc__

    def _read(self, method: Any) -> None:
        self._method = method
        self._signature = Signature(self._fn, self.name, method=method is not None)
        self.parameters = self._signature.parameters
        self.description = self._described or self._signature.description

    def __set_name__(self, owner: type, name: str) -> None:
        # only now it is certain: a function above @staticmethod is not told of its class
        if self._method is None and self._class == owner.__qualname__:
            self._read(self._fn)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R]":
        """Return the tool of an instance; the tool itself where there is nothing to bind."""
        if self._method is None or (instance is None and not isinstance(self._method, classmethod)):
            return self
        bound: FunctionTool[..., R] = copy.copy(self)
        bound._fn, bound._method = self._method.__get__(instance, owner), None
        return bound

    def check_bound(self) -> None:
        """Refuse a method that was not reached through an instance.

        Raises:
            ToolDefinitionError: It is one.
        """
        if self._method is not None:
            raise ToolDefinitionError(
                f"tool '{self.name}' is a method and has no instance: give {way_to(self._fn)}"
            )

    def to_schema(self) -> dict[str, Any]:
        """Return the tool as providers are told of it.

        Raises:
            ToolDefinitionError: It is a method without its instance.
        """
        self.check_bound()
        return super().to_schema()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self._fn(*args, **kwargs)

    async def execute(self, **kwargs: Any) -> Any:
        """Call the function, in a thread when it is a sync one.

        Returns:
            Text, a dict, or what holds images or documents; all else as JSON text.

        Raises:
            ToolExecutionError: The function raised, or its time is over; the cause is chained.
        """
        try:
            work: Any = self._fn(**kwargs) if self._is_async else THREADS.call(self._fn, kwargs)  # type: ignore[call-arg]
            value = await (work if self.timeout is None else within(self.timeout, work))
        except Exception as error:
            raise ToolExecutionError(self.name, error) from error
        if isinstance(value, (str, dict)) or has_parts(value):
            return value
        return as_text(value)


def _is_wrapped(fn: Any) -> bool:
    return isinstance(fn, staticmethod | classmethod)


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, approval: Approval = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...  # fmt: skip
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    timeout: float | None = None,
) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(name="override")` for another name.

    Args:
        fn: The function, when used without parentheses.
        name: What the model calls it, by default the function's name.
        description: What it is for, by default the docstring without its sections.
        approval: Whether a call waits for a person: True, or a function of validated arguments.
        timeout: Seconds a call may take; then the model is told so. A thread cannot be ended: what
            a sync function has begun goes on, and its result is nobody's.

    Returns:
        The FunctionTool, or a decorator that makes one.

    Raises:
        ToolDefinitionError: A parameter cannot be given as JSON.
    """

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(
            function, name=name, description=description, approval=approval, timeout=timeout
        )

    return decorate if fn is None else decorate(fn)
