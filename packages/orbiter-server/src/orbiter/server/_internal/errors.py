"""How requests fail: one exception, one JSON shape."""

from starlette.responses import JSONResponse

from orbiter.client import ClientError
from orbiter.server.models import ErrorAnswer, ErrorDetail
from orbiter.types import OrbiterError


class RequestError(OrbiterError):
    """A request cannot be answered; the text says what to do instead."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after
        super().__init__(message)


_STATUSES = {
    "busy": 429, "invalid": 422, "no_answer": 422, "no_transcripts": 404, "not_found": 404,
    "reads_only": 403, "refused": 403, "unreachable": 502,
}  # fmt: skip
"""Of a ClientError by its code; 409 of all others: the task is not as the request has it."""


def refusal_of(error: ClientError) -> RequestError:
    """Return what a TaskClient has refused as the answer to a request."""
    status = _STATUSES.get(error.code, 409)
    if error.code == "refused" and error.status in (400, 403, 422):
        status = error.status
    code = "cluster_unreachable" if error.code == "unreachable" else error.code
    return RequestError(status, str(error), code=code, param=error.field)


def error_response(error: RequestError) -> JSONResponse:
    """Return the answer to a request that failed."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="orbiter"'
    return JSONResponse(
        ErrorAnswer(
            error=ErrorDetail(
                message=str(error), type=_type(error.status), code=error.code, param=error.param
            )
        ).model_dump(),
        error.status,
        headers,
    )


def _type(status: int) -> str:
    known = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    return known.get(status, "server_error" if status >= 500 else "invalid_request_error")


def unknown(kind: str, key: str) -> RequestError:
    """Return the error of an id that means nothing."""
    return RequestError(404, f"there is no {kind} '{key[:100]}'", code=f"{kind}_not_found")


def logged(error: Exception) -> str:
    """Return an error as a short line of ASCII: what a tenant's Redis says, too, is read there."""
    return ascii(str(error))[1:-1][:200] or type(error).__name__
