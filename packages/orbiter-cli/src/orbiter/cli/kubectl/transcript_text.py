"""What an agent says and does, as lines for a terminal. Pure: events in, lines out.

An agent's words are text, whatever is in them: each line passes `plain` before it gets a colour,
and what is long is cut. Lines of a text come when they are whole, or when something else begins.
"""

from typing import Final, Literal, NamedTuple

from orbiter.cli.kubectl.tool_calls import Call, describe_call
from orbiter.cli.ui.text import one_line, plain, seconds
from orbiter_contracts.transcript import AnyEvent, ToolCallEvent, ToolResultEvent

Style = Literal["", "dim", "tool", "good", "bad", "add", "del", "ask", "own"]
"""What a line is; which colour that has, whoever prints it knows. `own` is no agent's, but ours."""
_WIDTH: Final = 160
_LONGEST_LINE: Final = 1000
_MOST_CALLS: Final = 200
_MOST_DIFF: Final = 12
_REASON: Final = 120


class Line(NamedTuple):
    """One line, without its end and without anything that a terminal would obey."""

    text: str
    style: Style = ""


class Renderer:
    """Turns the events of one attempt into lines, and knows what they have come to.

    Attributes:
        cost: US dollars of the attempt so far, None when nobody has said.
        tokens: Read and written by the model so far.
        ended: Whether the last event of the turn was seen.
    """

    def __init__(self) -> None:
        self.cost: float | None = None
        self.tokens = (0, 0)
        self.ended = False
        self._open = ""
        self._kind = ""
        self._running: dict[str, Call] = {}
        self._last = ""

    def add(self, event: AnyEvent) -> list[Line]:
        """The lines that an event adds."""
        if event.cost_usd is not None:
            self.cost = max(self.cost or 0.0, event.cost_usd)
        if event.type == "usage":
            # it comes in the middle of a text, too, and parts none
            self.tokens = (event.usage.input_tokens, event.usage.output_tokens)
            return []
        kind = f"{event.type} {event.agent_name}"
        speaks = event.type in ("text", "thinking")
        before = self.flush() if kind != self._kind or not speaks else []
        self._kind = kind
        who = one_line(event.agent_name, 40)
        told = self._told(event)
        return [*before, *(Line(f"[{who}] {text}", style) if who else Line(text, style)
                           for text, style in told)]  # fmt: skip

    def flush(self) -> list[Line]:
        """The line that is not whole yet."""
        rest, self._open = self._open, ""
        return [self._said(rest)] if rest.strip() else []

    def _told(self, event: AnyEvent) -> list[Line]:
        match event.type:
            case "text" | "thinking":
                return self._speech(("\n" if event.opens else "") + event.text)
            case "message":
                return _each(event.text, "ask", "> ")
            case "tool_call":
                return self._call(event)
            case "tool_result":
                return self._result(event)
            case "input_request":
                return _each(event.question, "ask", "? ")
            case "error":
                return _each(event.error, "bad", "! ")
            case "cut":
                some = f"{event.events:,} events are" if event.events else "something is"
                return [Line(f"… {some} missing here", "dim")]
            case "verdict":
                # its words are in the task's summary, which follows
                self.ended = True
        return []

    def _speech(self, text: str) -> list[Line]:
        """The whole lines; a very long one is broken between words, so that it comes in time."""
        self._open += plain(text)
        lines: list[Line] = []
        while True:
            head, newline, rest = self._open.partition("\n")
            if not newline:
                if len(head) <= _WIDTH:
                    return lines
                place = head.rfind(" ", 0, _WIDTH)
                head, rest = head[: max(place, 0) or _WIDTH], head[max(place + 1, 0) or _WIDTH :]
            self._open = rest
            if head.strip() or (lines and lines[-1].text):
                lines.append(self._said(head))

    def _said(self, text: str) -> Line:
        style: Style = "dim" if self._kind.startswith("thinking") else ""
        return Line(plain(text)[:_LONGEST_LINE].rstrip(), style)

    def _call(self, event: ToolCallEvent) -> list[Line]:
        call = describe_call(event.tool_name, event.arguments)
        self._last = event.tool_call_id or event.tool_name
        self._running[self._last] = call
        if len(self._running) > _MOST_CALLS:
            del self._running[next(iter(self._running))]
        lines = [Line(f"→ {call.title}", "tool")]
        shown = call.diff[:_MOST_DIFF]
        lines += [Line(f"    {one}", "add" if one[0] == "+" else "del") for one in shown]
        more = len(call.diff) - len(shown)
        return [*lines, Line(f"    … {more} more lines", "dim")] if more else lines

    def _result(self, event: ToolResultEvent) -> list[Line]:
        key = event.tool_call_id or event.tool_name
        call = self._running.pop(key, None)
        direct, self._last = key == self._last and call is not None, ""
        name = "" if direct else f" {call.title if call else one_line(event.tool_name, 60)}"
        took = "" if event.seconds is None else f" {seconds(event.seconds)}"
        if event.error is None:
            return [Line(f"  ✓{name}{took}".rstrip(), "good")]
        why = one_line(event.error or event.content, _REASON)
        return [Line(f"  ✗{name}{took}: {why or 'it failed'}", "bad")]


def _each(text: str, style: Style, mark: str) -> list[Line]:
    lines = [line.rstrip()[:_LONGEST_LINE] for line in plain(text).split("\n")]
    return [Line(f"{mark}{line}", style) for line in lines if line] or [Line(mark.strip(), style)]
