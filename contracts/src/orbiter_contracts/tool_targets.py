"""What a call of a tool works on, in its own words: a path, a command, an address. Pure and total.

The arguments are an agent's words: JSON of any shape, or the beginning of one that was cut.
"""

import json
import re
import shlex
from typing import Any, Final

_TARGETS: Final = (
    *("file_path", "filePath", "path", "notebook_path", "filename", "absolute_path"),
    *("command", "cmd", "url", "query", "pattern", "description", "prompt", "question"),
)
"""Arguments that say what a tool works on, the first that is there; of many agents' tools."""
_CUT_ARGUMENT: Final = re.compile(
    rf'"(?:{"|".join(_TARGETS)})"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL
)
_MOST_PATHS: Final = 10


def read_arguments(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call; None when they are no object, or were cut."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def tool_target(arguments: str) -> str:
    """What a call works on; empty when it does not say so. Of the length that the agent gave it.

    >>> tool_target('{"file_path": "src/login.py", "old_string": "a"}')
    'src/login.py'
    >>> tool_target('{"changes": [{"path": "a.py", "kind": "update"}, {"path": "b.py"}]}')
    'a.py, b.py'
    >>> tool_target('{"command": ["git", "commit", "-m", "a b"]}')
    "git commit -m 'a b'"
    >>> tool_target('{"command": "make te')
    'make te'
    """
    given = read_arguments(arguments)
    return cut_target(arguments) if given is None else named_target(given)


def cut_target(arguments: str) -> str:
    """The same of arguments that are no object, or the beginning of one."""
    cut = _CUT_ARGUMENT.search(arguments)
    return cut[1] if cut else ""


def named_target(given: dict[str, Any]) -> str:
    """The same of arguments that were read."""
    for name in _TARGETS:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return shlex.join(value)
    return ", ".join(_changed(given.get("changes")))


def _changed(changes: Any) -> list[str]:
    """The paths of codex' `file_change`."""
    if not isinstance(changes, list):
        return []
    some = (each.get("path") for each in changes[:_MOST_PATHS] if isinstance(each, dict))
    return [path for path in some if isinstance(path, str)]
