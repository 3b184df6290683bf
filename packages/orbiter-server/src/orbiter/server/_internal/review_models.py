"""A TokenReview and a SubjectAccessReview: what is asked, and the one reading of the answer.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from orbiter.server._internal.viewer import Right

AUTHENTICATION = "authentication.k8s.io"
AUTHORIZATION = "authorization.k8s.io"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class Person(_Read):
    """Who a token is of, as the cluster names them."""

    username: str = Field(min_length=1)
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(_Read):
    authenticated: StrictBool = False
    # empty where nobody is: read only where somebody is said to be
    user: dict[str, Any] = {}
    audiences: tuple[str, ...] = ()


class _AccessStatus(_Read):
    allowed: StrictBool
    denied: StrictBool = False


class _TokenAnswer(_Read):
    status: _TokenStatus


class _AccessAnswer(_Read):
    status: _AccessStatus


def token_review(token: str, audience: str) -> dict[str, Any]:
    """Return the question whose a token is; the empty audience is the API server's own."""
    spec: dict[str, Any] = {"token": token}
    if audience:
        spec["audiences"] = [audience]
    return {"apiVersion": f"{AUTHENTICATION}/v1", "kind": "TokenReview", "spec": spec}


def person_of(answer: object, audience: str) -> Person | None:
    """Return whose the token is; None when it is nobody's, or not for this audience.

    Raises:
        ValueError: It is no such answer.
    """
    status = _TokenAnswer.model_validate(answer).status
    if not status.authenticated:
        return None
    # a cluster that knows no audiences says nothing of them, and means its own
    if audience and audience not in status.audiences:
        return None
    return Person.model_validate(status.user)


def access_review(person: Person, right: Right, own: str) -> dict[str, Any]:
    """Return the question whether somebody has a right.

    Args:
        person: As the TokenReview names them, all of it: any of it may give the right.
        right: Which one.
        own: The server's namespace, for rights that are of it.
    """
    spec: dict[str, Any] = {
        "user": person.username,
        "uid": person.uid,
        "groups": list(person.groups),
        "extra": {key: list(values) for key, values in person.extra.items()},
    }
    if right.path:
        spec["nonResourceAttributes"] = {"path": right.path, "verb": right.verb}
    else:
        resource, _, part = right.resource.partition("/")
        spec["resourceAttributes"] = {
            "group": right.group,
            "resource": resource,
            "verb": right.verb,
            "namespace": own if right.namespace is None else right.namespace,
            "name": right.name,
            **({"subresource": part} if part else {}),
        }
    return {"apiVersion": f"{AUTHORIZATION}/v1", "kind": "SubjectAccessReview", "spec": spec}


def allowed_by(answer: object) -> bool:
    """Say whether the answer is a yes.

    Raises:
        ValueError: It is no such answer.
    """
    status = _AccessAnswer.model_validate(answer).status
    return status.allowed and not status.denied
