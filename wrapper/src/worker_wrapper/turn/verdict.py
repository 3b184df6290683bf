"""What an agent says about its own work: the JSON object in its last <result> block.

turn.py asks for it in the system prompt and reads it here. Pure; whatever is wrong with a block
becomes words, never an exception.
"""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from orbiter_contracts import AgentVerdict, InputRequest, clamped_data
from orbiter_contracts.bounds import MAX_LINE_CHARACTERS
from worker_wrapper.agents.decoding import loads

_OPEN, _CLOSE = "<result>", "</result>"
_TRIED = 32
_SHOWN_FIELD = 80
_FENCE = "```"
_LANGUAGE = re.compile(r"\w*")

DEVELOPER_INSTRUCTION = """\
Nobody reads your messages while you work and nobody can answer a question before you end. End
your last message with exactly one block of this form, one JSON object and nothing else inside:
<result>{"status": "success", "summary": "what you did, in a sentence or two"}</result>
"status" is "success" when the task is done, "failure" when it cannot be done, "in_progress" when
you had to leave it unfinished, "input_required" when you cannot go on without an answer (then put
the question in "question"). Add "commit_sha" and "pr_url" if you made them, and anything that a
program should read as an object in "data"."""

PO_INSTRUCTION = """\
Your last message is the answer the user reads. Only if you could not do what was asked, or cannot
go on without an answer, end it with one block like one of these, a JSON object and nothing else:
<result>{"status": "failure", "summary": "why"}</result>
<result>{"status": "input_required", "question": "what you need to know"}</result>"""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in an agent's text.

    Attributes:
        verdict: The last block, if it is usable.
        problem: Why there is no verdict, in words.
        present: Whether there is a block at all.
        rest: The text without that block.
        warnings: What of the verdict could not be kept, and why.
    """

    verdict: AgentVerdict | None
    problem: str | None
    present: bool
    rest: str
    warnings: tuple[str, ...] = ()


def find_verdict(text: str) -> Finding:
    """Read the last <result> block of an agent's text."""
    place = _last_block(text)
    if place is None:
        return Finding(None, "the agent's answer has no <result> block", False, text)
    start, end = place
    rest = (text[: start - len(_OPEN)] + text[end + len(_CLOSE) :]).strip()
    verdict, problem, warnings = _read(text[start:end])
    return Finding(verdict, problem, True, rest, warnings)


def _last_block(text: str) -> tuple[int, int] | None:
    """Where the content of the last block is.

    Its text may itself mention the tags. So of all openings behind the block before, the first wins
    whose content is JSON; if none is, the last.
    """
    end = text.rfind(_CLOSE)
    before = text.rfind(_CLOSE, 0, max(end, 0))
    while end >= 0:
        starts = _openings(text, before + len(_CLOSE) if before >= 0 else 0, end)
        if starts:
            # Each try may read all that follows: of very many, the outermost and the last ones.
            starts = [*starts[:_TRIED], *starts[_TRIED:][-_TRIED:]]
            good = (start for start in starts if _loads(text[start:end]) is not None)
            return next(good, starts[-1]), end
        if before < 0:
            return None
        before = text.rfind(_CLOSE, 0, before)
    return None


def _openings(text: str, start: int, end: int) -> list[int]:
    return [start + match.end() for match in re.finditer(_OPEN, text[start:end])]


def _loads(content: str) -> Any:
    """The JSON value, or None when it is none. A code fence around it is forgiven."""
    try:
        return loads(_unfenced(content.strip()))
    except ValueError:
        return None


def _unfenced(content: str) -> str:
    """What is within a fence. Not by one pattern: that takes the cube of a run of spaces."""
    if len(content) < 2 * len(_FENCE) or not (
        content.startswith(_FENCE) and content.endswith(_FENCE)
    ):
        return content
    inner = content[len(_FENCE) : -len(_FENCE)]
    return _LANGUAGE.sub("", inner, count=1).strip()


def _read(content: str) -> tuple[AgentVerdict | None, str | None, tuple[str, ...]]:
    value = _loads(content)
    shown = content.strip()[:200]
    if value is None:
        return None, f"the agent's <result> block is not valid JSON: {shown}", ()
    if not isinstance(value, dict):
        return None, f"the agent's <result> block is not a JSON object: {shown}", ()
    given, warnings = _within_bounds(value)
    try:
        return AgentVerdict.model_validate(given), None, warnings
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])[:_SHOWN_FIELD]
        return None, f"the agent's <result> block has an unusable {field!r}: {first['msg']}", ()


def _within_bounds(value: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What of a block a verdict is made of, and what had to be left out of it.

    A value that is out of range costs itself and not the work that the verdict speaks of.
    """
    known = AgentVerdict.model_fields
    given = {key: item for key, item in value.items() if key in known and item is not None}
    warnings = []
    if isinstance(given.get("data"), dict):
        given["data"], problem = clamped_data(given["data"])
        if problem:
            warnings.append(f"the verdict's data was left out: it {problem}")
    if "request" in given and not _is_request(given["request"]):
        del given["request"]
        warnings.append("the verdict's request was left out: it is no InputRequest")
    for field in ("commit_sha", "pr_url"):
        said = given.get(field)
        if isinstance(said, str) and len(said) > MAX_LINE_CHARACTERS:
            del given[field]
            size = f"{len(said)} characters; there may be {MAX_LINE_CHARACTERS}"
            warnings.append(f"the verdict's {field} was left out: it has {size}")
    return given, tuple(warnings)


def _is_request(value: Any) -> bool:
    try:
        InputRequest.model_validate(value)
    except ValidationError:
        return False
    return True
