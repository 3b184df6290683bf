"""What Redis says, in words: what is wrong, or which user, right or function is missing yet.

Where an operator makes the users and loads the functions, a worker may be there before it is, or
before a Redis that was restarted has its users again. connection.py waits for what is named here.
"""

from typing import Final

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from orbiter_contracts.scripts import LIBRARY

_FUNCTION_MISSING: Final = "Function not found"
_REFUSED_INSIDE: Final = ("ACL failure in script", "The user executing the script can't")
"""What a function hears that calls what its caller may not: of Redis 7.2 and later, and of 7.0."""


def explain(error: Exception) -> str:
    """Say in words what an error of Redis means for the person who runs this worker."""
    text = str(error) or type(error).__name__
    match error:
        case ReadOnlyError():
            return f"it is a read-only replica, REDIS_URL must name the primary ({text})"
        case BusyLoadingError():
            return f"it is still loading its data ({text})"
        case AuthenticationError():
            return f"it refused the user or password in REDIS_URL ({text})"
        case NoPermissionError():
            return f"the user in REDIS_URL may not do that, see the server's ACL ({text})"
        case OutOfMemoryError():
            return f"it is out of memory, see its maxmemory ({text})"
        case TimeoutError() | RedisTimeoutError():
            return "it does not answer in time"
        case _:
            return text


def missing(error: Exception, command: tuple[str | int | bytes, ...], user: str) -> str | None:
    """What has to be there first; None for an error that says something else.

    Args:
        error: What Redis, or the way to it, answered.
        command: What was asked.
        user: Whose name we come under.
    """
    text = str(error)
    asked = " ".join(str(word) for word in command[: 2 if command[0] == "FCALL" else 1])
    if isinstance(error, AuthenticationError):
        return f"the user {user} with our password ({text})"
    if not isinstance(error, ResponseError):
        return None
    if text.startswith(_FUNCTION_MISSING):
        return f"the function {command[1]!s} of the library {LIBRARY} ({text})"
    if isinstance(error, NoPermissionError) or text.startswith(_REFUSED_INSIDE):
        return f"the right of the user {user} to {asked} ({text})"
    return None
