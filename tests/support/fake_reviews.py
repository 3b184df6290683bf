"""TokenReview and SubjectAccessReview for the fake API server: who a token is of, and who may what.

A question of another shape than the real server takes is refused as it would be there.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from support.fake_api import FakeApi, Object, RefusedRequestError

API_AUDIENCE = "https://kubernetes.default.svc"


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class _TokenSpec(_Shape):
    token: str
    audiences: list[str] = []


class _TokenReview(_Shape):
    api_version: Literal["authentication.k8s.io/v1"]
    kind: Literal["TokenReview"]
    spec: _TokenSpec


class _Resource(_Shape):
    group: str
    resource: str
    verb: str
    namespace: str
    name: str
    subresource: str = ""


class _Path(_Shape):
    path: str
    verb: str


class _AccessSpec(_Shape):
    user: str
    uid: str
    groups: list[str]
    extra: dict[str, list[str]]
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None


class _AccessReview(_Shape):
    api_version: Literal["authorization.k8s.io/v1"]
    kind: Literal["SubjectAccessReview"]
    spec: _AccessSpec


@dataclass
class FakeReviews:
    """What the cluster knows of tokens and rights; change it as a test goes on.

    Attributes:
        tokens: User and audiences by token.
        rights: User or group, verb, resource, namespace and name; an empty namespace is all of
            them, an empty name every object. Of a path: user, verb and path.
        asked: Each question that was answered: `spec` of a review.
    """

    tokens: dict[str, tuple[Object, tuple[str, ...]]] = field(default_factory=dict)
    rights: set[tuple[str, ...]] = field(default_factory=set)
    asked: list[Object] = field(default_factory=list)

    def token(
        self, token: str, user: str, *, audience: str | tuple[str, ...] = "orbiter-server"
    ) -> str:
        """Make a token known, as that of a user of the group "people"."""
        person = {"username": user, "uid": f"uid-{user}", "groups": ["people"],
                  "extra": {"from": ["test"]}}  # fmt: skip
        self.tokens[token] = person, (audience,) if isinstance(audience, str) else audience
        return token

    def give(self, who: str, verb: str, resource: str, namespace: str = "", name: str = "") -> None:
        """Give a right."""
        self.rights.add((who, verb, resource, namespace, name))

    def take(self, who: str) -> None:
        """Take all rights of somebody."""
        self.rights = {right for right in self.rights if right[0] != who}

    def token_review(self, body: Object) -> Object:
        """Answer a TokenReview."""
        spec = _checked(_TokenReview, body).spec
        self.asked.append(body["spec"])
        person, audiences = self.tokens.get(spec.token, (None, ()))
        wanted = spec.audiences or [API_AUDIENCE]
        common = [audience for audience in audiences if audience in wanted]
        if person is None or not common:
            # the user is there and empty, as Kubernetes 1.35 says it
            return {**body, "status": {"user": {}, "error": f"[{spec.token} is invalid]"}}
        found = {"authenticated": True, "user": person, "audiences": common}
        return {**body, "status": found}

    def access_review(self, body: Object) -> Object:
        """Answer a SubjectAccessReview."""
        spec = _checked(_AccessReview, body).spec
        self.asked.append(body["spec"])
        if (spec.resource_attributes is None) == (spec.non_resource_attributes is None):
            raise RefusedRequestError(422, "Invalid", "exactly one of the attributes is needed")
        if not spec.user and not spec.groups:
            raise RefusedRequestError(422, "Invalid", "at least one of user or group is needed")
        return {**body, "status": {"allowed": any(map(self._has(spec), self.rights))}}

    @staticmethod
    def _has(spec: _AccessSpec) -> Any:
        def has(right: tuple[str, ...]) -> bool:
            who, verb, *rest = right
            if who not in (spec.user, *spec.groups):
                return False
            if spec.non_resource_attributes is not None:
                wanted = spec.non_resource_attributes
                return (verb, rest) == (wanted.verb, [wanted.path])
            asked = spec.resource_attributes
            assert asked is not None
            group = "" if asked.resource == "secrets" else "orbiter.dev"
            if len(rest) != 3 or asked.group != group:
                return False
            resource, namespace, name = rest
            part = f"/{asked.subresource}" if asked.subresource else ""
            return (
                (verb, resource) == (asked.verb, asked.resource + part)
                and namespace in ("", asked.namespace)
                and name in ("", asked.name)
            )

        return has


def _checked(shape: Any, body: Object) -> Any:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise RefusedRequestError(400, "BadRequest", f"{body}: {error}") from None


@pytest.fixture
def reviews(api: FakeApi) -> FakeReviews:
    """Reviews of one test's API server. A conftest.py that imports it gives it to its tests."""
    made = FakeReviews()
    api.reviews = {"tokenreviews": made.token_review, "subjectaccessreviews": made.access_review}
    return made
