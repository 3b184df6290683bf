"""What a call of a tool is about: its target in a few words, and of an edit what it changes. Pure.

The arguments are an agent's words: JSON of any shape, or the beginning of one that was cut.
"""

import difflib
import json
import re
from typing import Any, Final, NamedTuple

from orbiter.cli.ui.text import one_line
from orbiter_contracts.tool_targets import cut_target, named_target, read_arguments

_EDITS: Final = (
    *(("old_string", "new_string"), ("oldString", "newString"), ("old_text", "new_text")),
    *(("old_str", "new_str"), ("old", "new")),
)
_WHOLE: Final = ("content", "file_text", "contents")
_PATCHES: Final = ("patch", "patchText", "diff", "unified_diff", "input")
_WRITES: Final = re.compile(r"write|create|edit|replace|patch|insert", re.IGNORECASE)
_TARGET: Final = 100
_NAME: Final = 60
_LINE: Final = 120
_MOST_LINES: Final = 200
"""Lines of an edit that are compared: what two long texts differ in takes long to find."""


class Call(NamedTuple):
    """A call as people read it: tool and target, and the lines that it takes away and adds."""

    title: str
    diff: tuple[str, ...] = ()


def describe_call(tool: str, arguments: str) -> Call:
    """Say what a call is about; total, whatever the arguments are."""
    given = read_arguments(arguments)
    if given is None:
        return Call(_title(tool, cut_target(arguments) or arguments))
    target = named_target(given)
    if given and not target:
        target = json.dumps(given, ensure_ascii=False)[: 4 * _TARGET]
    return Call(_title(tool, target), tuple(_changes(tool, given)))


def _title(tool: str, target: str) -> str:
    return f"{one_line(tool, _NAME)}  {one_line(target, _TARGET)}".strip()


def _changes(tool: str, given: dict[str, Any]) -> list[str]:
    """The lines that go and the lines that come, each with its sign."""
    edits = given.get("edits")
    lines: list[str] = []
    for each in (given, *(edits if isinstance(edits, list) else ())):
        if isinstance(each, dict):
            lines += _edit(each)
    if lines or not _WRITES.search(tool):
        return lines
    for name in _PATCHES:
        if isinstance(text := given.get(name), str):
            return [_sign(line[0], line[1:]) for line in _lines(text) if _is_change(line)]
    whole = next((given[name] for name in _WHOLE if isinstance(given.get(name), str)), "")
    return [_sign("+", line) for line in _lines(whole)]


def _edit(given: dict[str, Any]) -> list[str]:
    for old, new in _EDITS:
        before, after = given.get(old), given.get(new)
        if isinstance(before, str) and isinstance(after, str):
            # not ndiff, which compares within lines, too: 4 s for two times 200 unlike ones
            found = difflib.unified_diff(_lines(before), _lines(after), n=0, lineterm="")
            return [_sign(line[0], line[1:]) for line in [*found][2:] if line[:1] in ("+", "-")]
    return []


def _lines(text: str) -> list[str]:
    return text.split("\n", _MOST_LINES)[:_MOST_LINES] if text else []


def _is_change(line: str) -> bool:
    return line[:1] in ("+", "-") and not line.startswith(("+++", "---"))


def _sign(sign: str, line: str) -> str:
    # the beginning of a line is what a diff is read by
    indent = len(line) - len(line.lstrip(" \t"))
    return f"{sign} {' ' * min(indent, 40)}{one_line(line, _LINE)}".rstrip() or sign
