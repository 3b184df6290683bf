"""Whether a call waits for a person: what a tool says of it."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from orbiter._schema.hints import ToolDefinitionError

logger = logging.getLogger("orbiter")
Approval = bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""Whether a person has to approve a call: always, never, or as a function, sync or async, says of
its validated arguments. What that raises counts as a yes."""


def checked(approval: Approval, name: str) -> Approval:
    """Refuse what says nothing of whether a person has to approve.

    Raises:
        ToolDefinitionError: It is neither a bool nor a function.
    """
    if not isinstance(approval, bool) and not callable(approval):
        raise ToolDefinitionError(
            f"Tool '{name}': approval= got {approval!r}: give True, or a function of the arguments"
        )
    return approval


async def waits(approval: Approval, name: str, arguments: Mapping[str, Any]) -> bool:
    """Say whether a call waits for a person."""
    if not callable(approval):
        return approval
    try:
        says = approval(arguments)
        return bool(await says if inspect.isawaitable(says) else says)
    except Exception:
        logger.warning("approval of tool '%s' failed, so a person is asked", name, exc_info=True)
        return True
