"""The language of the scripts: `[[name: body]]` in a prompt becomes a step of the model.

A directive may stand anywhere and its body may span lines. It ends at the first `]]` after which
the line ends or the next directive begins, so that `[[bash: if [[ -f x ]]; then echo y; fi]]` is
one directive. Nothing else may follow on the line of a directive.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OPENING = r"\[\[(?P<name>[a-z]+)(?=:|\]\]|[ \t])"
DIRECTIVE = re.compile(
    OPENING + r"(?P<body>.*?)\]\](?=[ \t]*(?:$|\[\[[a-z]+(?::|\]\]|[ \t])))",
    re.DOTALL | re.MULTILINE,
)
TIMES = re.compile(r"(?P<code>[1-5]\d\d)(?:\s*x\s*(?P<times>\d+))?")
SECONDS = re.compile(r"(?P<seconds>\d+(?:\.\d+)?)\s*s?")
CHUNKS = re.compile(r"(?P<chunks>\d+)(?:\s*chunks)?(?:\s+over\s+(?P<seconds>\d+(?:\.\d+)?)\s*s)?")
TOKENS = re.compile(r"(?P<input>\d+)\s*in[,\s]+(?P<output>\d+)\s*out")


class DirectiveError(ValueError):
    """A directive that cannot be understood; the message says what would be."""


@dataclass(frozen=True)
class Say:
    """Answer this text; `{output}` is what the last tool call printed."""

    text: str


@dataclass(frozen=True)
class Shell:
    """Call the agent's shell tool, whatever it is called there."""

    command: str


@dataclass(frozen=True)
class Tool:
    """Call a tool by its name with these arguments."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Answer a `<result>` block with this body, verbatim; None makes a valid one."""

    body: str | None


@dataclass(frozen=True)
class Status:
    """Answer an HTTP error so many times; None means always."""

    code: int
    times: int | None


@dataclass(frozen=True)
class Hang:
    """Send nothing for so many seconds; None means for ever."""

    seconds: float | None


@dataclass(frozen=True)
class Remember:
    """A fact for a later `[[recall]]` of the same conversation."""

    fact: str


@dataclass(frozen=True)
class Recall:
    """Answer what earlier prompts of this conversation said to remember."""


@dataclass(frozen=True)
class Stream:
    """Send the text of this reply in pieces, spread over so many seconds."""

    chunks: int
    seconds: float


@dataclass(frozen=True)
class Usage:
    """Report these token counts for each reply instead of plausible ones."""

    input: int
    output: int


@dataclass(frozen=True)
class Persist:
    """Go on with this script at the next step when a later prompt of the conversation has none."""


@dataclass(frozen=True)
class Attempt:
    """What follows is for the n-th conversation that begins with this very prompt."""

    number: int


Step = (
    Say
    | Shell
    | Tool
    | Result
    | Status
    | Hang
    | Remember
    | Recall
    | Stream
    | Usage
    | Persist
    | Attempt
)


def match(pattern: re.Pattern[str], name: str, body: str, example: str) -> re.Match[str]:
    """Match a whole body or say how it should look."""
    found = pattern.fullmatch(body)
    if found is None:
        raise DirectiveError(f"[[{name}: {body}]] is not understood; write for example {example}")
    return found


def tool(body: str) -> Tool:
    """Parse `Name {"argument": …}`."""
    name, _, arguments = body.partition(" ")
    try:
        parsed = json.loads(arguments or "{}")
    except ValueError as error:
        raise DirectiveError(f"[[tool: {name} …]]: the arguments are no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise DirectiveError(f"[[tool: {name} …]]: the arguments must be a JSON object")
    return Tool(name, parsed)


def status(body: str) -> Status:
    """Parse `429` or `429 x2`."""
    found = match(TIMES, "status", body, "[[status: 429 x2]]")
    return Status(int(found["code"]), int(found["times"]) if found["times"] else None)


def hang(body: str) -> Hang:
    """Parse nothing or `5s`."""
    if not body:
        return Hang(None)
    return Hang(float(match(SECONDS, "hang", body, "[[hang: 5s]]")["seconds"]))


def stream(body: str) -> Stream:
    """Parse `10 chunks` or `10 chunks over 2s`."""
    found = match(CHUNKS, "stream", body, "[[stream: 10 chunks over 2s]]")
    return Stream(int(found["chunks"]), float(found["seconds"] or 0))


def usage(body: str) -> Usage:
    """Parse `1000 in 200 out`."""
    found = match(TOKENS, "usage", body, "[[usage: 1000 in, 200 out]]")
    return Usage(int(found["input"]), int(found["output"]))


def attempt(body: str) -> Attempt:
    """Parse a number."""
    return Attempt(int(match(re.compile(r"\d+"), "attempt", body, "[[attempt: 2]]")[0]))


PARSERS: Mapping[str, Callable[[str], Step]] = {
    "say": Say,
    "bash": Shell,
    "tool": tool,
    "result": lambda body: Result(body or None),
    "status": status,
    "hang": hang,
    "remember": Remember,
    "recall": lambda _: Recall(),
    "stream": stream,
    "usage": usage,
    "persist": lambda _: Persist(),
    "attempt": attempt,
}


def parse(text: str) -> tuple[Step, ...]:
    """Return the steps a prompt asks for, in order; none when it has no directive.

    Raises:
        DirectiveError: A directive is unknown, malformed, or never closed.
    """
    steps: list[Step] = []
    position = 0
    for found in DIRECTIVE.finditer(text):
        check_rest(text[position : found.start()])
        name = found["name"]
        if name not in PARSERS:
            raise DirectiveError(f"unknown directive [[{name}]]; known: {', '.join(PARSERS)}")
        check_rest(found["body"])
        steps.append(PARSERS[name](found["body"].removeprefix(":").strip()))
        position = found.end()
    check_rest(text[position:])
    return tuple(steps)


def remembers(text: str) -> list[re.Match[str]]:
    """Return the `[[remember]]` directives in a text that is no script as a whole."""
    return [found for found in DIRECTIVE.finditer(text) if found["name"] == "remember"]


def check_rest(prose: str) -> None:
    """Refuse a known directive that was opened and whose end was not found."""
    for found in re.finditer(OPENING, prose):
        if found["name"] in PARSERS:
            raise DirectiveError(
                f"[[{found['name']} or the directive before it is not closed: a directive ends "
                "with ]], and nothing but directives may follow on that line"
            )


def of_attempt(steps: tuple[Step, ...], number: int) -> tuple[Step, ...]:
    """Return the steps for one attempt: those before any `[[attempt]]` and of its section.

    An attempt beyond the last section runs the last section.
    """
    sections = [step.number for step in steps if isinstance(step, Attempt)]
    wanted = max((n for n in sections if n <= number), default=0)
    chosen: list[Step] = []
    current = 0
    for step in steps:
        if isinstance(step, Attempt):
            current = step.number
        elif current in (0, wanted):
            chosen.append(step)
    return tuple(chosen)
