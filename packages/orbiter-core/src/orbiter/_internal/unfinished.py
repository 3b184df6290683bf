"""The result of a run that ended before it had the output its agent's type promises."""

from typing import Any

from orbiter.errors import UnfinishedRunError
from orbiter.types import RunResult


class UnfinishedResult(RunResult):
    """A result like any other, but for `output`: nobody takes the text so far for what it is not.

    The text stays where programs that write results find it.
    """


def _output(result: RunResult[Any]) -> Any:
    raise UnfinishedRunError(
        result.last_agent,
        result.stop_reason,
        messages=result.messages,
        usage=result.usage,
        steps=result.steps,
    )


# behind pydantic, which takes no property in a field's place
UnfinishedResult.output = property(_output)
