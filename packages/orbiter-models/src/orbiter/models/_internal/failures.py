"""What a failure of a vendor's SDK tells."""

from typing import Any

from orbiter.models._words import words

MOST_WORDS = 4000
"""Characters of what a vendor says of a failure; a proxy may answer with a whole page."""

# where the request's name is, when the SDK does not know it: at Azure, and at AWS
_NAMES = ("apim-request-id", "x-amzn-requestid")

# what the vendors call their errors, and the status that each has outside of a stream
_NAMED: dict[str, int | None] = {
    "invalid_request_error": 400,
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    # Bedrock, in the middle of a stream
    "throttlingException": 429,
    "modelTimeoutException": 408,
    "validationException": 400,
    "modelStreamErrorException": 424,
    "internalServerException": 500,
    "serviceUnavailableException": 503,
}

# codes of answers that say in their body that there is none
_CODES: dict[str, int] = {
    "server_error": 500,
    "rate_limit_exceeded": 429,
    "invalid_prompt": 400,
    "vector_store_timeout": 504,
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


def status_coded(code: str) -> int | None:
    """Return the status that an answer with such a code stands for; None for an unknown one."""
    return _CODES.get(code)


def said(vendor: str, failure: Any) -> str:
    """Say who failed, and how: in the vendor's words, of which a page may be left out."""
    status, request = status_of(failure), request_of(failure)
    who = f"{vendor} answered {status}" if status else vendor
    text = words(str(failure))[:MOST_WORDS]
    text = text.rstrip(".") if status is None else text
    return f"{who}: {text} (request {request})" if request else f"{who}: {text}"


def request_of(failure: Any) -> str | None:
    """Return what the vendor calls the request that failed."""
    named = getattr(failure, "request_id", None)
    found = [named, *(header(failure, name) for name in _NAMES)]
    return next((words(name)[:200] for name in found if isinstance(name, str)), None)


def header(failure: Any, name: str) -> str | None:
    """Return a header of the answer that failed, if there was one."""
    response = getattr(failure, "response", None)
    return None if response is None else response.headers.get(name)


def is_transport(failure: Exception) -> bool:
    """Whether it is an error of the HTTP library that the SDKs use."""
    return type(failure).__module__.partition(".")[0] in ("httpx", "httpx2")
