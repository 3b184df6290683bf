"""Scorers of JSON: does it fit a schema, and is it what was expected."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orbiter.eval.scorer import Scorer, ScorerError, scorer_registry
from orbiter.evaluation import Case, CaseResult, Score

_FENCED = re.compile(r"\s*```[a-z]*\n(.*)\n```\s*", re.DOTALL)
_MISSING = object()


class NoJsonError(ScorerError):
    """An output is no JSON."""


def json_of(output: Any) -> Any:
    """Return an output as JSON: structured output as it is, text parsed, also from a fence.

    Raises:
        NoJsonError: It is text of another kind.
    """
    if not isinstance(output, str):
        return output
    fenced = _FENCED.fullmatch(output)
    try:
        return json.loads(fenced[1] if fenced else output)
    except ValueError as error:
        raise NoJsonError(f"the output is no JSON: {error}") from error


@dataclass(frozen=True)
class JsonMatch(Scorer):
    """How much of the JSON of `expected` is in the output, and nothing else: 1 when equal.

    It is the share of values (at their places) that both have among those that one of them has.
    Numbers are compared by their value, so 1 is 1.0.

    Attributes:
        name: In reports.
    """

    name: str = "json"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Compare; without an `expected` there is no score."""
        if case.expected is None:
            return self.says(None, "the case has no `expected`")
        try:
            wanted, got = json_of(case.expected), json_of(result.output)
        except NoJsonError as error:
            return self.says(0.0, str(error))
        a, b = dict(_leaves(wanted)), dict(_leaves(got))
        places = {**a, **b}
        wrong = [place for place in places if not _same(a, b, place)]
        reason = f"differs at {', '.join(wrong[:5])}" if wrong else ""
        return self.says(1 - len(wrong) / len(places), reason)


@dataclass(frozen=True)
class JsonSchema(Scorer):
    """1 when the output is JSON that fits a schema, else 0.

    Attributes:
        schema: JSON Schema.
        name: In reports.
    """

    schema: dict[str, Any]
    name: str = "schema"

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import SchemaError
        from jsonschema.validators import validator_for

        kind = validator_for(self.schema)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise ScorerError(f"scorer '{self.name}': no JSON schema: {error.message}") from error
        return kind(self.schema)

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Validate.

        Raises:
            ScorerError: The schema is none.
        """
        try:
            problem = next(self._validator.iter_errors(json_of(result.output)), None)
        except NoJsonError as error:
            return self.says(0.0, str(error))
        if problem is None:
            return self.says(1.0)
        return self.says(0.0, f"{problem.json_path}: {problem.message}")


def _leaves(value: Any, place: str = "$") -> Iterator[tuple[str, Any]]:
    # an empty object or list is a value too
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{index}]")
    else:
        yield place, value


def _same(a: dict[str, Any], b: dict[str, Any], place: str) -> bool:
    one, other = a.get(place, _MISSING), b.get(place, _MISSING)
    # in Python True == 1, in JSON it is not
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _schema(text: str) -> JsonSchema:
    if not text:
        raise ValueError("name the schema's file: schema=answer.schema.json")
    scorer = JsonSchema(json.loads(Path(text).read_text(encoding="utf-8")))
    scorer._validator  # noqa: B018 (a wrong schema is told before anything runs)
    return scorer


scorer_registry.register("json", lambda text: JsonMatch())
scorer_registry.register("schema", _schema)
