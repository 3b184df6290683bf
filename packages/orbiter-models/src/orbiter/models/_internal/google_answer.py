"""How Gemini is held to a schema: by its strict mode, and by a tool call beside other tools.

The API takes no schema where functions are declared. A call of the answer's tool is told as the
text that it stands for, so it is in no history, and any model goes on from there.
"""

from typing import Any

Schema = dict[str, Any]

_KEPT = frozenset({
    "type", "format", "title", "description", "minItems", "maxItems", "minimum", "maximum",
})  # fmt: skip
_BY_CALL = "Give your final answer by calling the tool `{}`, and in no other way."


def add_schema(config: Schema, schema: Schema) -> str | None:
    """Ask for an answer that fits a schema.

    Args:
        config: A request's, which has the agent's tools.
        schema: A closed one that does not hold itself.

    Returns:
        The tool by which the answer comes, if by one.
    """
    if "tools" not in config:
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = gemini_schema(schema)
        return None
    functions = config["tools"][0]["function_declarations"]
    name = "final_answer"
    while any(function["name"] == name for function in functions):
        name += "_"
    told = "Give the final answer."
    functions.append({"name": name, "description": told, "parameters_json_schema": schema})
    system = config.get("system_instruction")
    config["system_instruction"] = "\n\n".join(filter(None, [system, _BY_CALL.format(name)]))
    return name


def own_tools_only(config: Schema, answer_tool: str) -> None:
    """Let a choice of tools be one of the agent's own, as where the answer is no tool."""
    chosen = config.get("tool_config", {}).get("function_calling_config")
    if chosen is None or "allowed_function_names" in chosen or chosen["mode"] == "AUTO":
        return
    names = [function["name"] for function in config["tools"][0]["function_declarations"]]
    names.remove(answer_tool)
    if chosen["mode"] == "NONE":
        names = [answer_tool]
    chosen |= {"mode": "ANY", "allowed_function_names": names}


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
