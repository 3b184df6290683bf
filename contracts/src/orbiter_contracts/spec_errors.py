"""Why a part of a spec cannot be read: a sentence that shows nothing of what was written. Pure."""

from collections.abc import Mapping

from pydantic import ValidationError

from orbiter_contracts.bounds import one_line

_LONGEST = 300


def spec_problem(error: ValidationError, expected: Mapping[str, str]) -> str:
    """The first thing that is wrong, and where.

    Args:
        error: Of models with fields of ours only: their names are told, and places in lists.
        expected: What to say where a text does not have the form of a pattern, by the pattern.

    Returns:
        One line, `mcpServers[0].name: is no name of a server`; without the place where all of it
        is wrong.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    where = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
    context = first.get("ctx", {})
    what = context.get("error") or expected.get(context.get("pattern", "")) or first["msg"]
    return one_line(": ".join(filter(None, (where.removeprefix("."), str(what)))), _LONGEST)
