"""Runs that ended before they had the output they promise: by a limit, or by an error."""

from contextlib import suppress
from typing import Any

from orbiter.errors import UnfinishedRunError
from orbiter.types import OrbiterError, RunResult

GO_ON = 'To go on behind what was said: run(agent, "", messages=error.messages).'


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


def keep(
    error: Exception, result: RunResult[Any], *, run_id: str | None = None, go_on: str = ""
) -> None:
    """Let an error tell what its run had come to, and how to go on.

    Words that others use otherwise stay theirs.

    Args:
        error: What ended the run.
        result: What there was up to then.
        run_id: Under which name it is kept, if it is.
        go_on: A sentence, which tracebacks show; empty for that of a run that nothing keeps.
    """
    ours = isinstance(error, OrbiterError)
    told = {name: getattr(result, name) for name in ("messages", "usage", "steps")}
    if run_id is not None:
        told["run_id"] = run_id
    for name, value in told.items():
        if ours or not hasattr(error, name):
            with suppress(AttributeError):
                setattr(error, name, value)
    note = go_on or (GO_ON if result.steps else "")
    if note and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
