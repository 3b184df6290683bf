"""From an output type to the JSON schema of a model's answer, and from the answer to its value.

Vendors take objects only: what is none is wrapped in an object of one field, and taken out of it
again. What a model answers is untrusted text: it is bounded before it is read.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from typing_extensions import TypeAliasType

from orbiter._misuse import shown
from orbiter._schema.schema import explain
from orbiter.types import DepsT, OrbiterError, OutputT, RunContext

MAX_ANSWER = 1 << 20
MAX_PROBLEM = 2000

# the one field of what is no object by itself
FIELD = "result"

_FENCED = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.DOTALL)
_GIVE = (
    "the class of a pydantic model, or a type with a JSON form: a dataclass, a TypedDict, int, "
    "list[str], A | B"
)


OutputFunction = (
    Callable[[RunContext[DepsT], OutputT], OutputT | Awaitable[OutputT]]
    | Callable[[OutputT], OutputT | Awaitable[OutputT]]
)


class MisfitError(OrbiterError):
    """A text does not fit the output type; the text of the error is written for the model."""


class OutputSchema:
    """What an agent's answer has to be.

    Attributes:
        name: The type as errors name it.
        schema: JSON schema of an object that holds the answer.
    """

    __slots__ = ("_parse", "_plain", "name", "schema")

    def __init__(self, output_type: Any, where: str) -> None:
        """Read a type, once.

        Args:
            output_type: Anything that pydantic's TypeAdapter takes.
            where: The parameter, for errors.

        Raises:
            OrbiterError: It is no type, or one without a JSON form.
        """
        if not _is_type(output_type):
            raise OrbiterError(f"{where} got {shown(output_type)}: give {_GIVE}")
        self.name = type_name(output_type)
        # what reads an answer that is not wrapped; None where nothing is
        self._plain: TypeAdapter[Any] | None = None
        self._parse: Callable[[str], Any]
        try:
            if isinstance(output_type, type) and issubclass(output_type, BaseModel):
                self.schema = output_type.model_json_schema()
                self._parse = output_type.model_validate_json
            else:
                adapter: TypeAdapter[Any] = TypeAdapter(output_type)
                self.schema = adapter.json_schema()
                self._parse = adapter.validate_json
            if self.schema.get("type") != "object":
                self._plain = TypeAdapter(output_type)
                self._wrap(output_type)
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise OrbiterError(
                f"{where} got {self.name}, which has no JSON form ({reason}): give {_GIVE}"
            ) from error

    def _wrap(self, output_type: Any) -> None:
        title = re.sub(r"\W+", "_", self.name).strip("_")[:48] or "output"
        wrapper = create_model(
            title, __config__=ConfigDict(extra="forbid"), result=(output_type, ...)
        )
        self.schema = wrapper.model_json_schema()

        def parse(text: str) -> Any:
            return getattr(wrapper.model_validate_json(text), FIELD)

        self._parse = parse

    def holding(self, value: Any) -> Any:
        """Return an object that holds an answer as the schema says."""
        return value if self._plain is None else {FIELD: value}

    def parse(self, text: str) -> Any:
        """Read a final answer.

        Args:
            text: The model's text, JSON, perhaps in a Markdown fence.

        Raises:
            MisfitError: It is something else.
        """
        if len(text) > MAX_ANSWER:
            raise MisfitError(
                f"the answer has {len(text):,} characters, give {MAX_ANSWER:,} at most"
            )
        fenced = _FENCED.fullmatch(text)
        text = fenced[1] if fenced else text
        try:
            return self._parse(text)
        except ValidationError as error:
            return self._unwrapped(text, error)

    def _unwrapped(self, text: str, error: ValidationError) -> Any:
        """Take an answer that forgot the wrapping, if there is any."""
        if self._plain is not None:
            try:
                return self._plain.validate_json(text)
            except ValidationError:
                pass
        problem = explain(error)
        if len(problem) > MAX_PROBLEM:
            problem = f"{problem[:MAX_PROBLEM]}…"
        raise MisfitError(problem) from error


class OutputValidator:
    """A user's function that checks outputs, whichever of its forms it has."""

    __slots__ = ("_function", "_takes_context")

    def __init__(self, function: Any, where: str) -> None:
        """Look at what the function takes.

        Raises:
            OrbiterError: It is no function of the output, or of the RunContext and the output.
        """
        give = "a function of the output, or of the RunContext and the output"
        try:
            taken = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise OrbiterError(f"{where} got {shown(function)}: give {give}") from error
        places = [p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        needed = [p for p in places if p.default is p.empty]
        if not places or len(needed) > 2 or len(taken) > len(places):
            raise OrbiterError(f"{where} got {shown(function)}: give {give}")
        self._function = function
        self._takes_context = len(needed) == 2

    async def __call__(self, context: RunContext, output: Any) -> Any:
        """Return the output, perhaps another one than was given."""
        made = self._function(*(context, output) if self._takes_context else (output,))
        return await made if inspect.isawaitable(made) else made


def _is_type(value: Any) -> bool:
    return (
        isinstance(value, type | GenericAlias | UnionType | NewType | TypeAliasType)
        or get_origin(value) is not None
        or value is Any
    )


def type_name(output_type: Any) -> str:
    """Return a type as errors name it: City, list[City], int | str."""
    origin, args = get_origin(output_type), get_args(output_type)
    if origin is Annotated:
        return type_name(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(type_name, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if origin is not None and args:
        return f"{type_name(origin)}[{', '.join(map(type_name, args))}]"
    if output_type in (None, NoneType):
        return "None"
    return str(getattr(output_type, "__name__", output_type))
