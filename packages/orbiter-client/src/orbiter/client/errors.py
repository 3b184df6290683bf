"""Why something was not done to a task: one exception, one word for programs, one sentence."""

from typing import Literal

from orbiter.types import OrbiterError

Code = Literal[
    "busy",
    "conflict",
    "exists",
    "invalid",
    "managed_elsewhere",
    "no_answer",
    "no_artifacts",
    "no_transcripts",
    "not_found",
    "other_request",
    "other_task",
    "reads_only",
    "refused",
    "too_large",
    "unreachable",
    "wrong_phase",
]


class ClientError(OrbiterError):
    """Nothing was changed; the text says why and what to do instead.

    Attributes:
        code: The reason, for programs: `exists` a task has this name; `other_task` the idempotency
            key has made another task; `other_request` the task does not wait for this answer;
            `no_answer` the words are none; `wrong_phase` it does not fit the task as it stands;
            `managed_elsewhere` another program runs the task; `refused` the API server's word;
            `reads_only` the token is none at the API server.
        status: What the API server has answered, where it was the one to refuse.
        field: What of a request is wrong, if that can be said.
    """

    def __init__(
        self, code: Code, message: str, *, status: int | None = None, field: str | None = None
    ) -> None:
        self.code: Code = code
        self.status = status
        self.field = field
        super().__init__(message)


def client_error(error: Exception) -> ClientError:
    """Return what the API server has refused, in its words, or that it did not answer."""
    words = str(getattr(error, "words", None) or error or type(error).__name__)[:1000]
    status = getattr(error, "status", None)
    if status == 401:
        return ClientError(
            "refused", f"the API server does not know this token: {words}", status=401
        )
    if status in (400, 403, 422):
        return ClientError("refused", words, status=status)
    if type(error).__name__ in ("ConflictError", "GoneError"):
        return ClientError("conflict", words, status=409)
    return ClientError("unreachable", f"the cluster did not do it: {words}")
