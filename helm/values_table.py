#!/usr/bin/env python3
"""Keeps the table of values in the chart's README: `python3 helm/values_table.py` rewrites it.

The names and descriptions are the schema's, the defaults those of values.yaml; so the README can
neither miss a value nor promise one that does not exist.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "orbiter"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"
_LONGEST_DEFAULT = 60


def leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every value that can be set: its dotted path and its description."""
    for name, field in schema["properties"].items():
        # Properties that nobody describes (requests and limits) belong to the value they are in.
        if any("description" in inner for inner in field.get("properties", {}).values()):
            yield from leaves(field, (*path, name))
        else:
            yield ".".join((*path, name)), field["description"]


def default_of(values: Any, path: str) -> str:
    """A value's default as it is shown, empty when there is none."""
    for name in path.split("."):
        if not isinstance(values, dict) or name not in values:
            return ""
        values = values[name]
    text = json.dumps(values, ensure_ascii=False)
    return f"`{text}`" if len(text) <= _LONGEST_DEFAULT else "see values.yaml"


def table() -> str:
    """The table as Markdown."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [
        f"| `{path}` | {default_of(values, path)} | {description} |"
        for path, description in leaves(schema)
        if path != "global"
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows, ""])


def renewed(readme: str) -> str:
    """The README with the table of today."""
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + table() + END + after


def main() -> None:
    """Rewrite the README in place."""
    readme = CHART / "README.md"
    readme.write_text(renewed(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
