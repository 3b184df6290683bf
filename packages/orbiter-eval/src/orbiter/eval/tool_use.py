"""A scorer of what an agent did: the tools it called, and with what."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orbiter.eval.scorer import Scorer, scorer_registry
from orbiter.evaluation import Case, CaseResult, ExpectedCall, Score
from orbiter.types import AssistantMessage, ToolCall


@dataclass(frozen=True)
class ToolUse(Scorer):
    """The share of a case's `tools` that were called, each call counted once.

    Attributes:
        ordered: Whether they have to come in that order.
        only: Whether other calls lower the score: it is then the share of matches among the
            expected or the made calls, whichever are more.
        forbidden: Tools whose call makes the score 0.
        name: In reports.
    """

    ordered: bool = False
    only: bool = False
    forbidden: tuple[str, ...] = ()
    name: str = "tools"

    async def score(self, case: Case, result: CaseResult) -> Score:
        """Compare; without `tools` there is a score only if some are forbidden."""
        made = calls_of(result)
        wrong = sorted({call.name for call in made} & set(self.forbidden))
        if wrong:
            return self.says(0.0, f"called {', '.join(wrong)}, which is forbidden")
        if case.tools is None:
            if self.forbidden:
                return self.says(1.0)
            return self.says(None, "the case has no `tools`")
        found = _in_order(case.tools, made) if self.ordered else _any_order(case.tools, made)
        possible = max(len(case.tools), len(made)) if self.only else len(case.tools)
        if found == possible:
            return self.says(1.0)
        told = ", ".join(f"{call.name}({call.arguments})" for call in made) or "nothing"
        wanted = ", ".join(call.name for call in case.tools) or "nothing"
        return self.says(found / possible, f"expected {wanted}; called {told}")


def calls_of(result: CaseResult) -> list[ToolCall]:
    """Return the tool calls of a run in their order, without those of earlier conversation."""
    return [
        call
        for message in result.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]


def _any_order(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> int:
    # Those that ask for more are served first, or a vaguer one might take their call away.
    left = list(made)
    found = 0
    for expected in sorted(wanted, key=lambda call: -len(call.arguments)):
        match = next((call for call in left if _fits(expected, call)), None)
        if match is not None:
            left.remove(match)
            found += 1
    return found


def _in_order(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(made) + 1)
    for expected in wanted:
        above = row[:]
        for i, call in enumerate(made, 1):
            row[i] = above[i - 1] + 1 if _fits(expected, call) else max(above[i], row[i - 1])
    return row[-1]


def _fits(expected: ExpectedCall, call: ToolCall) -> bool:
    if expected.name != call.name:
        return False
    try:
        arguments: Any = json.loads(call.arguments or "{}")
    except ValueError:
        return not expected.arguments
    return isinstance(arguments, dict) and all(
        key in arguments and arguments[key] == value for key, value in expected.arguments.items()
    )


scorer_registry.register("tools", lambda text: ToolUse(only=text == "only"))
