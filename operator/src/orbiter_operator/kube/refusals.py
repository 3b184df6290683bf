"""What a refusal of the API server is about. Pure."""

from orbiter_operator.kube.client import ApiError


def too_large(error: ApiError) -> bool:
    """Whether an object is larger than the API server or its database can store."""
    large = "too large" in error.message or "larger than max" in error.message
    return error.status == 413 or (error.status >= 500 and large)
