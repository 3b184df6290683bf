"""The command line of both programs: settings come from the environment, and help lists them."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

PREFIX = "ORBITER_"
EXIT_USAGE = 2
EXIT_FAILED = 1
S = TypeVar("S", bound=BaseSettings)


def run_program(
    name: str,
    description: str,
    settings: type[S],
    run: Callable[[S], Coroutine[Any, Any, int]],
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a program to its end; exits with 2 when the settings are wrong, else with its own code.

    Args:
        name: How it is called.
        description: What it does, for its help.
        settings: The class of its settings.
        run: What it does; returns the exit code.
        arguments: Instead of the command line's.
    """
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=_settings_help(settings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(arguments)
    try:
        found = settings()
    except ValidationError as error:
        # Values are not repeated: they may be secret.
        for item in error.errors(include_url=False, include_input=False):
            field = f"{PREFIX}{str(item['loc'][0]).upper()}"
            say(name, f"{field}: {item['msg'].removeprefix('Value error, ')}")
        sys.exit(EXIT_USAGE)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.exit(runner.run(run(found)))


def say(name: str, text: str) -> None:
    """Tell a person something."""
    print(f"{name}: {text}", file=sys.stderr)  # noqa: T201 - for a person


def _settings_help(settings: type[BaseSettings]) -> str:
    lines = ["settings (environment variables, default in brackets):"]
    for name, field in settings.model_fields.items():
        default = field.default
        if default is PydanticUndefined:
            shown = "needed" if field.is_required() else "computed"
        else:
            shown = ",".join(default) if isinstance(default, tuple) else str(default)
        lines += [f"  {PREFIX}{name.upper()} [{shown}]", f"      {field.description}"]
    return "\n".join(lines)
