"""From a Python signature to what a model needs to call it: a JSON schema, and back again.

pydantic does both. It is shown a function with the same parameters, all by keyword, that merely
returns what it is called with: its schema goes to the model, its validator turns the model's JSON
text into keyword arguments.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
)
from pydantic.json_schema import GenerateJsonSchema

from orbiter._schema.docstrings import parse_docstring
from orbiter._schema.hints import ToolDefinitionError, read_parameters
from orbiter.types import OrbiterError, RunContext


class ToolArgumentsError(OrbiterError):
    """The model's arguments do not fit the tool; the text is written for the model."""


class _Schema(GenerateJsonSchema):
    # a default such as a Path object is not JSON: it is left out of the schema and still used
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


# pydantic words these for programmers who call functions
_PLAIN = {
    "missing_keyword_only_argument": "is required",
    "unexpected_keyword_argument": "is no parameter",
    "arguments_type": "give a JSON object",
}


class Signature:
    """What the model sees of a callable, and how its answer becomes keyword arguments.

    Attributes:
        description: The docstring without its sections.
        parameters: JSON schema of the arguments.
        context_parameter: Name of the parameter that means the run's context, if any.
    """

    __slots__ = ("_validate", "context_parameter", "description", "parameters")

    def __init__(self, fn: Callable[..., Any], name: str, *, method: bool = False) -> None:
        """Read the signature of `fn`.

        Args:
            fn: A function, a method or any callable.
            name: The tool's name, for errors.
            method: Whether the first parameter is `self`.

        Raises:
            ToolDefinitionError: A parameter cannot be given as JSON.
        """
        self.description, described = parse_docstring(inspect.getdoc(fn))
        self.context_parameter: str | None = None
        shown: list[inspect.Parameter] = []
        parameters = list(read_parameters(fn, name))
        if method and not parameters:
            raise ToolDefinitionError(
                f"Tool '{name}': a method needs `self`, or @staticmethod above @tool"
            )
        for parameter, hint, is_context in parameters[1:] if method else parameters:
            if is_context:
                self._take_context(parameter, name)
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise ToolDefinitionError(
                    f"Tool '{name}': parameter '{parameter.name}' cannot be given by name; tools "
                    "take keyword arguments only"
                )
            else:
                shown.append(_by_keyword(parameter, hint, described.get(parameter.name)))
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(_collector(shown))
            self.parameters = _tidy(adapter.json_schema(schema_generator=_Schema))
        except (
            PydanticSchemaGenerationError,
            PydanticInvalidForJsonSchema,
            PydanticUndefinedAnnotation,
        ) as error:
            reason = str(error).splitlines()[0]
            raise ToolDefinitionError(
                f"Tool '{name}': a parameter's type has no JSON form: {reason}"
            ) from error
        if _holds_context(adapter.core_schema):
            raise ToolDefinitionError(
                f"Tool '{name}': a parameter's type holds a RunContext, which the model must not "
                "give: take it by a parameter of its own, annotated RunContext"
            )
        self._validate = adapter.validator.validate_json

    def parse(self, arguments: str) -> dict[str, Any]:
        """Turn the model's JSON text into keyword arguments.

        Raises:
            ToolArgumentsError: It is no JSON object or does not fit the schema.
        """
        try:
            keywords: dict[str, Any] = self._validate(arguments or "{}")
        except ValidationError as error:
            raise ToolArgumentsError(explain(error)) from error
        if self.context_parameter in keywords:
            # from `**arguments`, which take any name: this one is the run's to give
            raise ToolArgumentsError(f"{self.context_parameter}: is no parameter")
        return keywords

    def _take_context(self, parameter: inspect.Parameter, name: str) -> None:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"Tool '{name}': parameter '{parameter.name}' takes the run's context, but a tool "
                "is given one RunContext, and by name: write it as an ordinary parameter"
            )
        if self.context_parameter is not None:
            raise ToolDefinitionError(
                f"Tool '{name}': parameters '{self.context_parameter}' and '{parameter.name}' both "
                "take the run's context; keep one of them"
            )
        self.context_parameter = parameter.name


def _by_keyword(
    parameter: inspect.Parameter, hint: Any, description: str | None
) -> inspect.Parameter:
    if description:
        hint = Annotated[hint, Field(description=description)]
    kind = parameter.kind
    if kind is parameter.POSITIONAL_OR_KEYWORD:
        kind = parameter.KEYWORD_ONLY
    return parameter.replace(kind=kind, annotation=hint)


def _collector(parameters: list[inspect.Parameter]) -> Any:
    def collect(**keywords: Any) -> dict[str, Any]:
        return keywords

    parameters.sort(key=lambda parameter: parameter.kind)
    collect.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    collect.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return collect


def explain(error: ValidationError) -> str:
    """Say on one line what does not fit, for the model that has to correct it."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return f"not valid JSON: {problems[0]['msg'].removeprefix('Invalid JSON: ')}"
    return "; ".join(
        ": ".join(filter(None, [".".join(map(str, p["loc"])), _PLAIN.get(p["type"], p["msg"])]))
        for p in problems
    )


def _holds_context(schema: Any) -> bool:
    """Whether pydantic would make a RunContext of what the model sends, anywhere inside."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            kind = part.get("cls")
            if isinstance(kind, type) and issubclass(kind, RunContext):
                return True
            waiting += (value for key, value in part.items() if key != "metadata")
    return False


def _tidy(schema: Any) -> Any:
    """Drop pydantic's titles: they repeat the names and cost tokens in every call."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = ("properties", "$defs")
    return {
        key: {name: _tidy(value) for name, value in part.items()} if key in named else _tidy(part)
        for key, part in schema.items()
        if not (key == "title" and isinstance(part, str))
    }
