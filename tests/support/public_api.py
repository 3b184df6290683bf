"""Lists the public API of a package: what users may rely on, one line a name.

`python -m support.public_api` (from `tests/`) writes the listings anew; the diff shows the change
to the API, which is what a reviewer should look at.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
LISTINGS = ROOT / "tests" / "framework" / "public_api"
PACKAGES = (
    "orbiter-core",
    "orbiter-models",
    "orbiter-memory",
    "orbiter-context",
    "orbiter-trace",
    "orbiter-tasks",
    "orbiter-mcp",
    "orbiter-sandbox",
    "orbiter-eval",
    "orbiter-a2a",
    "orbiter-client",
    "orbiter-server",
    "orbiter-train",
    "orbiter-cli",
)
PROGRAM = {
    "orbiter-cli": (
        "orbiter.cli.agent.file",
        "orbiter.cli.agent.loading",
        "orbiter.cli.agent.objects",
        "orbiter.cli.agent.workspace_tools",
        "orbiter.cli.kubectl.main",
        "orbiter.cli.main",
        "orbiter.cli.ui.outcome",
        "orbiter.cli.ui.terminal",
        "orbiter.cli.ui.text",
    )
}
"""What others may import of a package whose interface is its commands; its rooms are its own."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MODULE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def listing(package: str) -> str:
    """Return the public API of a package as text."""
    lines: list[str] = []
    modules = PROGRAM.get(package) or _modules(ROOT / "packages" / package / "src" / "orbiter")
    for name in sorted(modules):
        module = importlib.import_module(name)
        lines += sorted(line for public in _names(module) for line in _describe(module, public))
    return "\n".join(lines) + "\n"


def _modules(directory: Path, name: str = "orbiter") -> Iterator[str]:
    if (directory / "__init__.py").exists():
        yield name
    for info in pkgutil.iter_modules([str(directory)]):
        if info.ispkg and not info.name.startswith("_"):
            yield from _modules(directory / info.name, f"{name}.{info.name}")
        elif not info.name.startswith("_"):
            yield f"{name}.{info.name}"


def _names(module: ModuleType) -> list[str]:
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return list(declared)
    imported = _imported(module)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in imported
        and name != "TYPE_CHECKING"
        and not inspect.ismodule(value)
        and not isinstance(value, TypeVar)
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]


def _imported(module: ModuleType) -> set[str]:
    """Names of other modules: a constant does not know its own, and is public where it is made."""
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname != alias.name  # `X as X` publishes it
    }


def _describe(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)
    path = f"{module.__name__}.{name}"
    home = getattr(value, "__module__", module.__name__)
    # what is written in a private module is told where it is published
    own = home == module.__name__ or "._" in home
    if inspect.isclass(value) and own:
        yield from _class(path, value)
    elif inspect.isroutine(value) and own:
        yield path + _signature(value)
    else:
        yield path


def _class(path: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"{path}({bases})" if bases else path
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            default = "" if field.is_required() else f" = {field.default!r}"
            yield f"{path}.{name}: {_short(inspect.formatannotation(field.annotation))}{default}"
    elif "__init__" in vars(kind):
        yield f"{path}.__init__{_signature(kind.__init__)}"
    for name, member in list(vars(kind).items()):
        if (name.startswith("_") and name != "__call__") or name == "model_config":
            continue
        if inspect.isroutine(member):
            plain = inspect.unwrap(getattr(member, "__func__", member))
            yield f"{path}.{name}{_signature(plain)}"
        elif isinstance(member, property) or name in getattr(kind, "__annotations__", {}):
            yield f"{path}.{name}"


def _signature(fn: Any) -> str:
    return _short(str(inspect.signature(fn)))


def _short(text: str) -> str:
    """Leave out addresses and modules, and call the union of all messages by its name."""
    text = _MODULE.sub("", _ADDRESS.sub("", text))
    return text.replace("UserMessage | AssistantMessage | SystemMessage | ToolResult", "Message")


if __name__ == "__main__":
    LISTINGS.mkdir(exist_ok=True)
    for package in PACKAGES:
        (LISTINGS / f"{package}.txt").write_text(listing(package))
