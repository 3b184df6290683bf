"""What a server asks a person in the middle of a call (`elicitation/create`, form mode).

A server is a stranger: its question is decoded by one total function, and what a person answers is
read against the few words of JSON schema that the protocol has for forms.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from orbiter.approval import InputCall, visible
from orbiter.types import OrbiterError

MOST_MESSAGE = 4_096
MOST_FIELDS = 32
MOST_SCHEMA = 16_384
_DEEPEST = 4
_TYPES = ("string", "number", "integer", "boolean", "array")
_KEYS = frozenset((
    "type", "title", "description", "enum", "enumNames", "oneOf", "anyOf", "const", "items",
    "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "default",
))  # fmt: skip


class ElicitationError(OrbiterError):
    """A server's question cannot be put to anybody, or an answer does not fit it."""


class Elicitation(BaseModel):
    """A question of a server to a person.

    Attributes:
        server: Name of the server.
        tool: The tool that asks, as the server calls it; empty when several are under way and the
            server does not say which.
        message: What it wants to know.
        fields: JSON schema of each field of the answer, by its name.
        required: The fields that may not be left out.
    """

    model_config = {"frozen": True}

    server: str
    tool: str = ""
    message: str
    fields: dict[str, dict[str, Any]] = Field(max_length=MOST_FIELDS)
    required: tuple[str, ...] = ()

    @property
    def question(self) -> str:
        """The message, who asks, and what to type, for a person."""
        of = f", tool '{self.tool}'," if self.tool else ""
        asked = visible(self.message, prose=True)
        return f"MCP server '{self.server}'{of} asks: {asked}\n{self._how()}"

    def read(self, text: str) -> dict[str, Any]:
        """Read what a person typed: JSON, or plain text where one text is all that is asked.

        Raises:
            ElicitationError: It does not fit.
        """
        text = text.strip()
        value: Any = None
        if text.startswith("{") or not self.fields:
            try:
                value = json.loads(text) if text.startswith("{") else {}
            except (ValueError, RecursionError) as error:
                raise ElicitationError(f"it is no JSON: {str(error)[:100]}") from error
        elif len(self.fields) == 1:
            ((name, schema),) = self.fields.items()
            value = {name: _plain(schema, text)}
        if not isinstance(value, dict):
            raise ElicitationError("it is no JSON object")
        return self.checked(value)

    def checked(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer that fits the fields.

        Raises:
            ElicitationError: It does not.
        """
        import jsonschema

        found = dict(value)
        _require_sane(found, "it")
        schema = {
            "type": "object", "properties": self.fields, "required": list(self.required),
            "additionalProperties": False,
        }  # fmt: skip
        try:
            jsonschema.Draft202012Validator(schema).validate(found)
        except jsonschema.ValidationError as error:
            where = f"{'.'.join(map(str, error.absolute_path))}: " if error.absolute_path else ""
            raise ElicitationError(f"{where}{error.message}"[:300]) from error
        return found

    def _how(self) -> str:
        if not self.fields:
            return "Answer with anything, or deny it."
        asked = {
            name if name in self.required else f"{name}?": schema
            for name, schema in self.fields.items()
        }
        form = visible(json.dumps(asked, ensure_ascii=False))
        one = " or with its value" if len(self.fields) == 1 else ""
        return f"Answer with a JSON object of these fields{one}: {form}"


ElicitationReply = str | Mapping[str, Any] | None
"""Text as a person types it, the fields of the answer, or None for a no."""
ElicitationHandler = Callable[[Elicitation], Awaitable[ElicitationReply] | ElicitationReply]


def read_elicitation(server: str, tool: str, params: Any) -> Elicitation:
    """Decode what a server asks; total.

    Args:
        server: Name of the server.
        tool: Whose call asks, if that is known.
        params: The SDK's parameters of `elicitation/create`.

    Raises:
        ElicitationError: It is of another mode, too large, or no form; the text is for the server.
    """
    if params.mode != "form":
        raise ElicitationError(
            f"elicitation of the mode '{params.mode!s:.20}' is refused: nobody here opens a page "
            "for a server; ask with a form"
        )
    message, schema = params.message, params.requested_schema
    if len(message) > MOST_MESSAGE:
        raise ElicitationError(
            f"the message has {len(message)} characters, and at most {MOST_MESSAGE} are shown"
        )
    _require_sane({"message": message, "schema": schema}, "the question")
    if len(json.dumps(schema)) > MOST_SCHEMA:
        raise ElicitationError(f"the schema has more than {MOST_SCHEMA} characters")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ElicitationError("the schema is not that of an object with properties")
    fields, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(fields, dict):
        raise ElicitationError("the schema is not that of an object with properties")
    if len(fields) > MOST_FIELDS:
        raise ElicitationError(f"the schema has {len(fields)} fields, and at most {MOST_FIELDS}")
    if not isinstance(required, list) or not all(name in fields for name in map(str, required)):
        raise ElicitationError("the schema requires what is no field of it")
    kept = {name: _field(name, one) for name, one in fields.items()}
    return Elicitation(
        server=server, tool=tool, message=message, fields=kept, required=tuple(map(str, required))
    )


def _require_sane(value: dict[str, Any], what: str) -> None:
    try:
        InputCall.of("elicitation", value)
    except ValueError as error:
        raise ElicitationError(f"{what} {error}"[:300]) from error


def _field(name: str, schema: Any) -> dict[str, Any]:
    import jsonschema

    if not isinstance(schema, dict) or schema.get("type") not in _TYPES:
        raise ElicitationError(f"the field '{name[:40]}' is not of a type that a form has")
    kept = _known(schema, _DEEPEST)
    try:
        jsonschema.Draft202012Validator.check_schema(kept)
    except jsonschema.SchemaError as error:
        raise ElicitationError(f"the field '{name[:40]}': {error.message}"[:300]) from error
    return kept


def _known(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    # what is left out is checked by the server itself; a `pattern` could run for hours here
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key not in _KEYS:
            continue
        if key in ("oneOf", "anyOf") and isinstance(value, list) and depth:
            kept[key] = [_known(one, depth - 1) for one in value if isinstance(one, dict)]
        elif key == "items" and isinstance(value, dict) and depth:
            kept[key] = _known(value, depth - 1)
        elif key not in ("oneOf", "anyOf", "items"):
            kept[key] = value
    return kept


def _plain(schema: dict[str, Any], text: str) -> Any:
    if schema["type"] == "string":
        return text
    if schema["type"] == "boolean" and text.lower() in ("yes", "no"):
        return text.lower() == "yes"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
