"""`kubectl orbiter transcript`: what an agent said and did, as Markdown or as JSON."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

import typer

from orbiter.cli.kubectl.client import Kubectl
from orbiter.cli.kubectl.references import resolve
from orbiter.cli.kubectl.transcript_archive import Access, whole
from orbiter.cli.kubectl.transcript_source import TranscriptSource
from orbiter.cli.ui.outcome import CommandError, ExitCode
from orbiter.cli.ui.progress import say
from orbiter.cli.ui.text import money, one_line, seconds
from orbiter_contracts.transcript import AnyEvent

FORMS: Final = ("md", "json")
_BACKTICKS: Final = re.compile(r"`{3,}")


def run_transcript(
    kubectl: Kubectl,
    name: str,
    *,
    attempt: int | None,
    form: str,
    redis_url: str | None,
    access: Access,
) -> int:
    """Print the transcript of a task's attempt, or of a session."""
    if form not in FORMS:
        raise CommandError(f"-o {form}: there is {' and '.join(FORMS)}", ExitCode.USAGE)
    found = resolve(kubectl, name)
    with TranscriptSource(kubectl, found, attempt=attempt, redis_url=redis_url) as source:
        events = list(source.new_events())
        try:
            events = whole(kubectl, found, source.attempt, events, access)
        except CommandError as error:
            say(f"what Redis has no more of it is not to be had: {error}", err=True)
        if not events:
            raise _nothing(found.reference, source)
    if form == "json":
        told = [event.model_dump(mode="json", exclude_none=True) for event in events]
        typer.echo(json.dumps({"name": found.name, "attempt": source.attempt, "events": told}))
        return ExitCode.OK
    which = f", attempt {source.attempt}" if source.attempt else ""
    say(f"# {found.reference}{which}\n")
    for paragraph in as_markdown(events):
        say(paragraph)
    return ExitCode.OK


def as_markdown(events: Iterable[AnyEvent]) -> Iterator[str]:
    """The events as paragraphs of Markdown, each with the blank line behind it.

    A text that came in pieces is one again, whatever figures came between them.
    """
    pieces, spoken = list[str](), ("", "", "")
    for event in events:
        if event.type == "usage":
            continue
        if event.type in ("text", "thinking"):
            speaker = (event.type, event.agent_name, event.request_id)
            if pieces and (event.opens or speaker != spoken):
                yield _said(*spoken[:2], "".join(pieces))
                pieces = []
            spoken = speaker
            pieces.append(event.text)
            continue
        if pieces:
            yield _said(*spoken[:2], "".join(pieces))
            pieces = []
        if shown := _shown(event):
            yield f"{shown}\n"
    if pieces:
        yield _said(*spoken[:2], "".join(pieces))


def _said(kind: str, agent: str, text: str) -> str:
    who = f"**{one_line(agent)}:** " if agent else ""
    if kind == "thinking":
        text = "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())
    return f"{who}{text.strip()}\n"


def _shown(event: AnyEvent) -> str:
    match event.type:
        case "tool_call":
            return f"**{one_line(event.tool_name)}**\n{_fenced(event.arguments, 'json')}"
        case "tool_result":
            took = f" ({seconds(event.seconds)})" if event.seconds is not None else ""
            head = f"{one_line(event.tool_name) or 'tool'}{took}"
            ended = "answered" if event.error is None else "failed"
            return f"{head} {ended}:\n{_fenced(event.error or event.content)}"
        case "message":
            return f"**User:** {event.text}"
        case "input_request":
            return f"**Asks:** {event.question}"
        case "error":
            return f"**Error:** {one_line(event.error, 1000)}"
        case "verdict":
            cost = f", {money(event.cost_usd)} USD" if event.cost_usd is not None else ""
            why = f" ({event.reason})" if event.reason else ""
            return f"**{event.status}**{why}{cost}\n\n{event.text}".strip()
        case "cut":
            how_many = f"{event.events} events" if event.events else "events"
            size = f", {event.bytes} bytes" if event.bytes else ""
            return f"*{how_many} are missing here{size}*"
        case _:
            return ""


def _fenced(text: str, language: str = "") -> str:
    """A text between fences that are longer than any in it."""
    found = _BACKTICKS.findall(text)
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in found)) if found else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _nothing(reference: str, source: TranscriptSource) -> CommandError:
    which = f" of attempt {source.attempt}" if source.attempt else ""
    if source.exists:
        why = "all of it has given way: transcripts have a tenth of Redis' memory at most"
    else:
        why = "its agent has said nothing yet, or the 7 days that it is kept are over"
    return CommandError(f"{reference} has no transcript{which}: {why}", ExitCode.NOT_FOUND)
