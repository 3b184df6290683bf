"""Endpoints as data: what serves a request is also what the OpenAPI document tells of it."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orbiter.client import ClientError
from orbiter.server._internal.bodies import Bodies
from orbiter.server._internal.errors import RequestError, error_response, refusal_of
from orbiter.server._internal.viewer import USE_AGENTS, Right, viewer_of
from orbiter.server.models import ErrorAnswer

ModelT = TypeVar("ModelT", bound=BaseModel)
Handler = Callable[..., Awaitable[BaseModel | Response | None]]
_PARAMETER = re.compile(r"{(\w+)}")
_UNTYPED: dict[str, dict[str, Any]] = {
    "application/json": {"schema": {"type": "object"}},
    "text/plain": {"schema": {"type": "string"}},
}
# where the metrics find out which endpoint a request has met
PATTERN = "orbiter.server.pattern"
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address and method.

    Attributes:
        method: In capitals.
        path: With its parameters in braces; they are given to the handler by name.
        summary: One line for the document.
        handler: Called with the request, `body` and `query` as far as they are declared, and the
            path's parameters.
        answer: Body of the success; None when there is none or it is no JSON.
        body: What the request has to be.
        query: What may stand behind the question mark.
        status: Of the success.
        media: Type of an answer that is no JSON.
        errors: Statuses of what can go wrong beside the common ones.
        public: Needs no token.
        idempotent: Whether the header `Idempotency-Key` makes it happen once: 200, where it had
            happened before.
        needs: The right without which nothing is served; None leaves that to the handler, which
            knows the object.
    """

    method: str
    path: str
    summary: str
    handler: Handler
    answer: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    status: int = 200
    media: str = "application/json"
    errors: tuple[int, ...] = ()
    public: bool = False
    idempotent: bool = False
    needs: Right | None = USE_AGENTS

    def route(self, bodies: Bodies) -> Route:
        """Return what serves it."""

        async def serve(request: Request) -> Response:
            request.scope[PATTERN] = self.path
            if self.needs is not None and not self.public:
                await viewer_of(request).require(self.needs)
            given: dict[str, Any] = dict(request.path_params)
            if self.query is not None:
                given["query"] = _parsed(self.query, dict(request.query_params), "query")
            if self.body is not None:
                given["body"] = _parsed(self.body, await bodies.json(request), "body")
            result = await self.handler(request, **given)
            if isinstance(result, Response):
                return result
            content = b"" if result is None else result.model_dump_json().encode()
            return Response(content, self.status, media_type=self.media if content else None)

        return Route(self.path, serve, methods=[self.method], name=f"{self.method} {self.path}")


def _parsed(model: type[ModelT], data: Any, place: str) -> ModelT:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        first = ".".join(str(part) for part in problems[0]["loc"])
        told = "; ".join(
            f"{'.'.join(str(part) for part in p['loc']) or place}: {p['msg']}" for p in problems[:5]
        )
        raise RequestError(422, told, code="invalid_value", param=first or None) from None


def openapi(
    endpoints: Sequence[Endpoint], *, version: str, secured: bool, reviewed: bool
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints.

    Args:
        endpoints: All of them.
        version: The server's.
        secured: Whether they need a token.
        reviewed: Whether the cluster says who may.
    """
    models: list[type[BaseModel]] = [ErrorAnswer]
    for endpoint in endpoints:
        models += [m for m in (endpoint.answer, endpoint.body, endpoint.query) if m is not None]
    _, schemas = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)], ref_template=_REFERENCE
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, secured, reviewed
        )
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Orbiter", "version": version},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }
    if secured:
        bearer = {"type": "http", "scheme": "bearer"}
        document["components"]["securitySchemes"] = {"token": bearer}
        document["security"] = [{"token": []}]
    return document


def _operation(endpoint: Endpoint, secured: bool, reviewed: bool) -> dict[str, Any]:
    success: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.answer is not None:
        success["content"] = {endpoint.media: {"schema": _ref(endpoint.answer)}}
    elif endpoint.status != 204:
        success["content"] = {endpoint.media: _UNTYPED.get(endpoint.media, {})}
    errors = set(endpoint.errors)
    if endpoint.body is not None:
        errors |= {400, 408, 413, 422}
    if endpoint.query is not None:
        errors |= {400, 422}
    if secured and not endpoint.public:
        errors |= {401}
    if reviewed and not endpoint.public:
        errors |= {403, 503}
    failure = {"application/json": {"schema": _ref(ErrorAnswer)}}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "parameters": _parameters(endpoint),
        "responses": {
            **({"200": success} if endpoint.idempotent else {}),
            str(endpoint.status): success,
            **{
                str(code): {"description": "Why it failed", "content": failure}
                for code in sorted(errors)
            },
        },
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": _ref(endpoint.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.public:
        operation["security"] = []
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    if endpoint.idempotent:
        key = {"type": "string", "minLength": 1, "maxLength": 257}
        found.append({"name": "Idempotency-Key", "in": "header", "schema": key})
    if endpoint.query is not None:
        schema = endpoint.query.model_json_schema(ref_template=_REFERENCE)
        for name, field in schema["properties"].items():
            # absent is how a query says null
            kinds = [kind for kind in field.pop("anyOf", []) if kind != {"type": "null"}]
            needed = {"required": True} if name in schema.get("required", ()) else {}
            told = {"name": name, "in": "query", "schema": {**field, **(*kinds, {})[0]}}
            found.append(told | needed)
    return found


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/v1"))
    return "_".join([endpoint.method.lower(), *words])


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


async def on_request_error(request: Request, error: Exception) -> Response:
    """Answer a request whose handler raised a RequestError, or a client's error."""
    if isinstance(error, ClientError):
        error = refusal_of(error)
    assert isinstance(error, RequestError)  # noqa: S101 - registered for nothing else
    return error_response(error)
