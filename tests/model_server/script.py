"""Decides what the model answers: one pure step from a conversation to a reply.

The prompt of the turn is the script; the number of tool results since then says how far it has run.
Each reply runs until the next tool call, as a model's does.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from . import directives as d
from .conversation import Conversation, Turn
from .journal import Journal

GREETING = (
    "Hello, I am Orbiter's scripted model. I read your prompt, found no directive in it, and so "
    "there was nothing to do."
)
SIDE_ANSWER = json.dumps({"title": "Scripted task"})
SHELL_YIELD_MS = 600_000
# The shell tools of the known agents, and how each wants its command (codex's `exec` a program).
SHELL_TOOLS: Mapping[str, Callable[[str], "Arguments"]] = {
    "Bash": lambda command: {"command": command, "description": "Run the scripted command"},
    "Execute": lambda command: {
        "command": command,
        "riskLevelReason": "The script asks for it",
        "riskLevel": "low",
    },
    "exec_command": lambda command: {"cmd": command, "yield_time_ms": SHELL_YIELD_MS},
    "exec": lambda command: (
        f"// @exec: {json.dumps({'yield_time_ms': SHELL_YIELD_MS})}\n"
        f"const done = await tools.exec_command("
        f"{json.dumps({'cmd': command, 'yield_time_ms': SHELL_YIELD_MS})});\n"
        "text(done.output);"
    ),
    "run_command": lambda command: {"command": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
    "run_shell_command": lambda command: {"command": command, "description": "The script's"},
    "bash": lambda command: {"command": command, "description": "Run the scripted command"},
}


Arguments = dict[str, object] | str


@dataclass(frozen=True)
class Text:
    """Words of the answer."""

    text: str


@dataclass(frozen=True)
class Pause:
    """Silence, in seconds; infinite when the model hangs."""

    seconds: float


@dataclass(frozen=True)
class ToolCall:
    """A call that the agent shall make before it asks again; raw text for a free-form tool."""

    name: str
    arguments: Arguments


Part = Text | Pause | ToolCall
_CUT_OFF = ("[Tool call interrupted", "[Tool result missing")
"""How Claude Code begins what it tells of a call whose result it has not, when it goes on."""


@dataclass(frozen=True)
class Reply:
    """One answer of the model: an HTTP error, or parts in order."""

    parts: tuple[Part, ...] = ()
    error: int | None = None
    usage: d.Usage | None = None

    @property
    def text(self) -> str:
        """All words of the answer."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> bool:
        """Whether the answer ends in a tool call."""
        return any(isinstance(part, ToolCall) for part in self.parts)


def decide(conversation: Conversation, journal: Journal, otherwise: str = "") -> Reply:
    """Return the reply to a conversation.

    Args:
        conversation: What the agent sent.
        journal: What was answered before.
        otherwise: The script of prompts without a directive; empty for a greeting.

    Raises:
        DirectiveError: The prompt's script cannot be understood.
    """
    if conversation.auxiliary:
        journal.auxiliary += 1
        return Reply((Text(SIDE_ANSWER),))
    conversation = gone_on(conversation)
    attempt = journal.attempt(conversation)
    script = d.of_attempt(d.parse(conversation.turn.words) or d.parse(otherwise), attempt)
    if not script:
        return Reply((Text(f"{GREETING}\n\n{result_block(None, GREETING)}"),))
    steps = steps_of_reply(script, len(conversation.turn.outputs))
    place = f"{conversation.key}/{len(conversation.turns)}/{len(conversation.turn.outputs)}"
    for number, step in enumerate(steps):
        if isinstance(step, d.Status) and (
            step.times is None or journal.fail_again(f"{place}/{number}", step.times)
        ):
            return Reply(error=step.code)
    return Reply(parts_of(steps, conversation), usage=usage_of(script))


def gone_on(conversation: Conversation) -> Conversation:
    """Return the conversation with what interrupted a persistent script taken out of it.

    The tools' answers so far are then those of the script's own turn, whichever they came in. A
    call of which the agent's program says that it was interrupted has none, and is made again.
    """
    turns: list[Turn] = []
    for turn in conversation.turns:
        if turns and persists(turns[-1].words) and not steps_in(turn.words):
            turns[-1] = replace(turns[-1], outputs=(*turns[-1].outputs, *turn.outputs))
        else:
            turns.append(turn)
    known = [
        replace(turn, outputs=tuple(o for o in turn.outputs if not o.startswith(_CUT_OFF)))
        if persists(turn.words)
        else turn
        for turn in turns
    ]
    return replace(conversation, turns=tuple(known))


def persists(words: str) -> bool:
    """Whether a script goes on behind an interruption."""
    return any(isinstance(step, d.Persist) for step in steps_in(words))


def steps_in(words: str) -> tuple[d.Step, ...]:
    """Return a prompt's steps; none when it is no script."""
    with suppress(d.DirectiveError):
        return d.parse(words)
    return ()


def steps_of_reply(script: tuple[d.Step, ...], index: int) -> tuple[d.Step, ...]:
    """Return the steps of the reply that follows `index` tool results."""
    replies: list[list[d.Step]] = [[]]
    for step in script:
        replies[-1].append(step)
        if isinstance(step, d.Shell | d.Tool):
            replies.append([])
    return tuple(replies[index]) if index < len(replies) else ()


def usage_of(script: tuple[d.Step, ...]) -> d.Usage | None:
    """Return the token counts that the script wants reported."""
    return next((step for step in script if isinstance(step, d.Usage)), None)


def parts_of(steps: tuple[d.Step, ...], conversation: Conversation) -> tuple[Part, ...]:
    """Turn the steps of one reply into what is sent."""
    output = conversation.turn.outputs[-1].strip() if conversation.turn.outputs else ""
    pacing = next((step for step in steps if isinstance(step, d.Stream)), None)
    parts: list[Part] = []
    said: list[str] = []

    def say(text: str) -> None:
        paragraph = f"\n\n{text}" if said else text
        said.append(text)
        parts.extend(paced(paragraph, pacing) if pacing else [Text(paragraph)])

    for step in steps:
        match step:
            case d.Say(text):
                say(text.replace("{output}", output))
            case d.Remember(fact):
                say(f"I will remember: {fact}")
            case d.Recall():
                say(recollection(conversation.turns))
            case d.Result(body):
                escaped = json.dumps(output)[1:-1]
                filled = body.replace("{output}", escaped) if body else None
                say(result_block(filled, " ".join(said) or output or "Done."))
            case d.Hang(seconds):
                parts.append(Pause(inf if seconds is None else seconds))
            case d.Shell(command):
                parts.append(shell_call(command, conversation.tools))
            case d.Tool(name, arguments):
                parts.append(ToolCall(name, dict(arguments)))
            case _:
                pass
    if not any(isinstance(part, Text | ToolCall) for part in parts):
        parts.append(Text(output or "Done."))
    return tuple(parts)


def paced(text: str, pacing: d.Stream) -> list[Part]:
    """Cut a text into pieces with silence between them."""
    size = -(-len(text) // max(pacing.chunks, 1))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    parts: list[Part] = []
    for piece in pieces:
        parts += [Text(piece), Pause(pacing.seconds / len(pieces))]
    return parts


def shell_call(command: str, offered: tuple[str, ...]) -> Part:
    """Call the shell tool that the agent offers; say so when it offers none."""
    for name, arguments in SHELL_TOOLS.items():
        if name in offered:
            return ToolCall(name, arguments(command))
    return Text(f"I cannot run {command!r}: none of {', '.join(SHELL_TOOLS)} is offered.")


def recollection(turns: tuple[Turn, ...]) -> str:
    """Return what the earlier prompts of the conversation said to remember, also as retold."""
    facts: list[str] = []
    for turn in turns:
        facts += [found["body"].lstrip(": ") for found in d.remembers(turn.retold)]
    for turn in turns[:-1]:
        with suppress(d.DirectiveError):
            facts += [step.fact for step in d.parse(turn.words) if isinstance(step, d.Remember)]
    known = list(dict.fromkeys(facts))
    return f"I remember: {'; '.join(known)}" if known else "I remember nothing."


def result_block(body: str | None, summary: str) -> str:
    """Return a result block with this body or, without one, with a plain success."""
    verdict = body or json.dumps({"status": "success", "summary": summary})
    return f"<result>\n{verdict}\n</result>"
