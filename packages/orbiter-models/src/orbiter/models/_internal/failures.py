"""What a failure of a vendor's SDK tells."""

from typing import Any

# what the vendors call their errors, and the status that each has outside of a stream
_NAMED: dict[str, int | None] = {
    "invalid_request_error": 400,
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
}


def status_of(failure: Any) -> int | None:
    """Return the status of a failure; one that a stream tells in its middle has a name instead."""
    status: int | None = getattr(failure, "status_code", None)
    if status is None and isinstance(getattr(failure, "code", None), int):
        return int(failure.code)
    body = getattr(failure, "body", None)
    if status not in (None, 200) or not isinstance(body, dict):
        return status
    error = body["error"] if isinstance(body.get("error"), dict) else body
    return _NAMED.get(str(error.get("type")), status)


def header(failure: Any, name: str) -> str | None:
    """Return a header of the answer that failed, if there was one."""
    response = getattr(failure, "response", None)
    return None if response is None else response.headers.get(name)


def is_transport(failure: Exception) -> bool:
    """Whether it is an error of the HTTP library that the SDKs use."""
    return type(failure).__module__.partition(".")[0] in ("httpx", "httpx2")
