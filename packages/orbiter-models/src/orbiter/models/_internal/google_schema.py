"""JSON schemas in the words of Gemini's strict mode, which knows a part of JSON Schema only."""

from typing import Any

Schema = dict[str, Any]

_KEPT = frozenset({
    "type", "format", "title", "description", "minItems", "maxItems", "minimum", "maximum",
})  # fmt: skip


def gemini_schema(schema: Schema) -> Schema:
    """Write a schema in the words that the API reads; what it cannot check is described."""
    if len(schema.get("allOf", ())) == 1:
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        return gemini_schema({**schema["allOf"][0], **rest})
    if "$ref" in schema and "$defs" not in schema:
        told = schema.get("description")
        # beside a reference nothing is read
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference], "description": told} if told else reference
    made: Schema = {}
    notes: list[str] = []
    for name, value in sorted(schema.items()):
        if name in ("properties", "$defs"):
            made[name] = {key: gemini_schema(part) for key, part in value.items()}
        elif name in ("anyOf", "oneOf"):
            made[name] = [gemini_schema(part) for part in value]
        elif name == "items":
            made[name] = gemini_schema(value)
        elif name in ("enum", "const") and (said := _enum(value if name == "enum" else [value])):
            made |= said
        elif name in _KEPT or name in ("required", "additionalProperties", "$ref"):
            made[name] = value
        elif name != "discriminator":
            notes.append(f"{name}: {value}")
    if "anyOf" in made and "enum" in schema:
        made.pop("type", None)
    if notes:
        told = f"({', '.join(notes)})"
        made["description"] = " ".join(filter(None, [made.get("description"), told]))
    return made


def _enum(values: list[Any]) -> Schema:
    """Return how values are listed; nothing when they cannot be."""
    kept = [value for value in values if value is not None]
    if not kept or any(isinstance(v, bool) or not isinstance(v, str | int | float) for v in kept):
        return {}
    if len(kept) == len(values):
        return {"enum": kept}
    kind = "string" if all(isinstance(value, str) for value in kept) else "number"
    return {"anyOf": [{"type": kind, "enum": kept}, {"type": "null"}]}
