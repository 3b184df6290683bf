"""Requests as the vendors' own SDKs type them: a field they do not know is an error of ours.

pydantic would do for the types, but it reads the SDKs' `Iterable` lazily and lets
unknown keys pass.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from support.google_wire import check_types
from typing_extensions import get_type_hints, is_typeddict

# fields of the API that its SDK has dropped, because the newest models refuse them
_OF_THE_API = {
    "openai": frozenset[str](),
    "responses": frozenset[str](),
    "embeddings": frozenset[str](),
    "anthropic": frozenset({"temperature", "top_p"}),
}

# Anthropic's API there, in versions of its own
_CLOUDS = {"bedrock": "bedrock-2023-05-31", "vertex": "vertex-2023-10-16"}

# what compatible servers have in messages besides
_OF_SERVERS = frozenset({"reasoning_content", "reasoning"})


def check_request(vendor: str, body: dict[str, Any], more: frozenset[str] = frozenset()) -> None:
    """Compare a request with the SDK's parameter types.

    Args:
        vendor: "openai", "responses" and "embeddings" (OpenAI's other APIs), "anthropic",
            "google", or a cloud with Anthropic's API, "bedrock" or "vertex".
        body: What the server received.
        more: Fields that a test has sent by `extra_body`.

    Raises:
        AssertionError: A field is not known, is missing or is of another type.
    """
    if vendor == "google":
        check_types({name: value for name, value in body.items() if name not in more})
        return
    if vendor in _CLOUDS:
        # the model is in the address there, and the version in the body
        assert body["anthropic_version"] == _CLOUDS[vendor]
        assert "model" not in body
        kept = {name: value for name, value in body.items() if name != "anthropic_version"}
        check_request("anthropic", {**kept, "model": "in the address"}, more)
        return
    beside = _OF_THE_API[vendor] | more
    kept = {name: value for name, value in body.items() if name not in beside}
    problem = _problem(kept, _params(vendor), vendor)
    assert problem is None, problem


def _params(vendor: str) -> Any:
    if vendor == "openai":
        from openai.types.chat import completion_create_params as openai_params

        return openai_params.CompletionCreateParams
    if vendor == "responses":
        from openai.types.responses import response_create_params as responses_params

        return responses_params.ResponseCreateParams
    if vendor == "embeddings":
        from openai.types import embedding_create_params as embedding_params

        return embedding_params.EmbeddingCreateParams
    from anthropic.types import message_create_params as anthropic_params

    return anthropic_params.MessageCreateParams


def _problem(value: Any, kind: Any, where: str) -> str | None:
    """Say what of a value does not fit a type."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        return _problem(value, args[0], where)
    if origin in (Union, UnionType):
        problems = [_problem(value, one, where) for one in args]
        return None if None in problems else _nearest([p for p in problems if p])
    if kind is Any or kind is object:
        return None
    if origin is Literal:
        return None if value in args else f"{where}: {value!r} is none of {args}"
    if is_typeddict(kind):
        return _typed_dict(value, kind, where)
    if origin is not None and issubclass(origin, Mapping | dict):
        fits = isinstance(value, dict)
        parts = [_problem(v, args[1], f"{where}.{k}") for k, v in value.items()] if fits else []
        return next((p for p in parts if p), None) if fits else f"{where}: {value!r} is no object"
    if origin is not None and (origin is Iterable or hasattr(origin, "__iter__")):
        fits = isinstance(value, list)
        parts = [_problem(v, args[0], f"{where}[{n}]") for n, v in enumerate(value)] if fits else []
        return next((p for p in parts if p), None) if fits else f"{where}: {value!r} is no list"
    if kind is float:
        kind = (int, float)
    if not isinstance(kind, type | tuple) or isinstance(value, kind):
        return None
    return f"{where}: {value!r} is no {kind}"


def _typed_dict(value: Any, kind: Any, where: str) -> str | None:
    if not isinstance(value, dict):
        return f"{where}: {value!r} is no {kind.__name__}"
    hints = _hints(kind)
    missing = kind.__required_keys__ - value.keys()
    if missing:
        return f"{where}: {kind.__name__} needs {sorted(missing)}"
    if unknown := value.keys() - hints.keys() - _OF_SERVERS:
        return f"{where}: {kind.__name__} does not know {sorted(unknown)}"
    known = ((name, value[name]) for name in value if name in hints)
    parts = (_problem(part, hints[name], f"{where}.{name}") for name, part in known)
    return next((p for p in parts if p), None)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _nearest(problems: list[str]) -> str:
    """Return the problem that lies deepest: that of the member which was meant."""
    return max(problems, key=lambda problem: problem.partition(": ")[0].count("."))
