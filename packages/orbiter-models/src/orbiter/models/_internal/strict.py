"""JSON schemas in the strict modes of vendors, which hold a model to a schema as it writes.

Both know a part of JSON Schema only: objects whose fields are all listed, no empty schemas. What a
strict mode cannot check goes into the description, for the model to read; core validates the answer
anyhow.
"""

from typing import Any

Schema = dict[str, Any]

_KEPT = frozenset({
    "type", "enum", "const", "description", "title", "pattern", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
})  # fmt: skip
_FORMATS = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip
_SAYS_WHAT = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})
_OPEN = frozenset({"patternProperties", "prefixItems", "not", "if"})


def is_closed(schema: Schema) -> bool:
    """Whether a schema lists all there can be, so that a strict mode can express it."""
    if _OPEN & schema.keys() or not _SAYS_WHAT & schema.keys():
        return False
    if schema.get("type") == "object":
        if schema.get("additionalProperties") not in (None, False):
            return False
        if "properties" not in schema:
            return False
    if schema.get("type") == "array" and not schema.get("items"):
        return False
    return all(is_closed(part) for part in _parts(schema))


def is_recursive(schema: Schema) -> bool:
    """Whether a definition holds itself, by whatever way."""
    defs = schema.get("$defs", {})
    uses = {name: set(_uses(part)) for name, part in defs.items()}
    for name in uses:
        seen: set[str] = set()
        waiting = list(uses[name])
        while waiting:
            used = waiting.pop()
            if used == name:
                return True
            if used not in seen:
                seen.add(used)
                waiting += uses.get(used, ())
    return False


def strict(schema: Schema) -> Schema:
    """Write a closed schema as OpenAI's strict mode wants it.

    All fields are required, those with a default too; alternatives are `anyOf`.
    """
    if "$ref" in schema and "$defs" not in schema:
        return {"$ref": schema["$ref"]}
    if len(schema.get("allOf", ())) == 1:
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        return strict({**schema["allOf"][0], **rest})
    made: Schema = {}
    notes: list[str] = []
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            made[name] = {key: strict(part) for key, part in value.items()}
        elif name in ("anyOf", "oneOf"):
            made["anyOf"] = [strict(part) for part in value]
        elif name == "items":
            made[name] = strict(value)
        elif _is_kept(name, value):
            made[name] = value
        elif name not in ("required", "additionalProperties", "discriminator", "$ref"):
            notes.append(f"{name}: {value}")
    if "$ref" in schema:
        made["$ref"] = schema["$ref"]
    if made.get("type") == "object":
        made["required"] = list(made.get("properties", ()))
        made["additionalProperties"] = False
    if notes:
        made["description"] = " ".join(
            filter(None, [made.get("description"), f"({', '.join(notes)})"])
        )
    return made


def _is_kept(name: str, value: Any) -> bool:
    if name == "format":
        return value in _FORMATS
    # look-arounds are not taken
    return name in _KEPT and not (name == "pattern" and "(?" in value)


def _parts(schema: Schema) -> list[Schema]:
    parts: list[Schema] = []
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            parts += value.values()
        elif name in ("anyOf", "oneOf", "allOf"):
            parts += value
        elif name == "items":
            parts.append(value)
    return parts


def _uses(schema: Schema) -> list[str]:
    own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
    return own + [name for part in _parts(schema) for name in _uses(part)]
