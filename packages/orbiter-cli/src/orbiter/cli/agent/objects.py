"""Python objects by `module:attr`: what files and command lines refer to."""

import importlib
import sys
from pathlib import Path
from typing import Any

from orbiter import Tool, tool
from orbiter.cli.ui.outcome import UsageError
from orbiter.cli.ui.sentences import sentence


class AgentFileError(UsageError):
    """An agent cannot be loaded; the text names the file or module and what is wrong."""


def load_object(reference: str, directory: Path) -> Any:
    """Return the object that `module:attr` names.

    Args:
        reference: Dots in `attr` lead further in.
        directory: Where modules are looked for before anywhere else.

    Raises:
        AgentFileError: There is none, or its module cannot be imported.
    """
    module_name, colon, path = reference.partition(":")
    if not colon or not module_name or not path:
        raise AgentFileError(f"'{reference}' is neither a .yaml file nor module:attr")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise AgentFileError(
            f"'{reference}': module {module_name} cannot be imported: "
            f"{type(error).__name__}: {_without_type(error)}"
        ) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise AgentFileError(f"'{reference}': {error}") from error
    return found


def load_tools(reference: str, directory: Path) -> list[Tool]:
    """Return the tool, the function made a tool, or the list of these that `module:attr` names.

    A name without a colon is one of the built-in tools, or `workspace` for those of all.
    """
    if ":" not in reference:
        return _built_in(reference)
    found = load_object(reference, directory)
    several = list(found) if isinstance(found, list | tuple) else [found]
    for one in several:
        if not isinstance(one, Tool) and not callable(one):
            raise AgentFileError(f"'{reference}' is no tool: {one!r}")
    return [one if isinstance(one, Tool) else tool(one) for one in several]


def load_output_type(reference: str | None, directory: Path) -> Any:
    """Return the type of an answer that `module:attr` names, any that an `Agent` takes."""
    if reference is None:
        return None
    found = load_object(reference, directory)
    if found is None:
        raise AgentFileError(f"'{reference}' is None, no type of an answer")
    return found


def _without_type(error: Exception) -> str:
    return sentence(error).removeprefix(f"{type(error).__name__}: ")


def _built_in(name: str) -> list[Tool]:
    from orbiter.cli.agent.workspace_tools import BUILT_IN

    if name not in BUILT_IN:
        known = ", ".join(BUILT_IN)
        raise AgentFileError(f"'{name}' is no built-in tool: write module:attr, or one of {known}")
    return list(BUILT_IN[name])
