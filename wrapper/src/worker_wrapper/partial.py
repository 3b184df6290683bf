"""What of an agent's words may be shown before it has finished: no verdict, no secret, not half.

Pure; streaming.py sends what comes out. Text is held back while it may yet turn out to be the
beginning of a `<result>` block, of a secret, or the blank lines before a block.
"""

from typing import Final

from worker_wrapper.redact import Redactor

STREAMED_CHARACTERS: Final = 256 * 1024
"""How much of an answer is streamed; the rest comes with the whole answer."""
_OPEN: Final = "<result>"
_CLOSE: Final = "</result>"


class PartialText:
    """One text of the agent, in deltas; `<result>…</result>` is taken out of it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._inside = False

    def feed(self, delta: str) -> str:
        """Take more of the text; return what of it can be shown now."""
        text, shown = self._held + delta, []
        while True:
            tag = _CLOSE if self._inside else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                break
            if not self._inside:
                shown.append(before.rstrip())
            self._inside = not self._inside
            text = after
        if self._inside:
            # Nothing of it is shown; only the end may matter, as the beginning of the closing tag.
            self._held = text[-(len(_CLOSE) - 1) :]
            return self._scrubbed("".join(shown))
        text = "".join(shown) + text
        keep = max(_beginning_of(_OPEN, text), self._redactor.begun(text))
        ready = text[: len(text) - keep].rstrip()
        self._held = text[len(ready) :]
        return self._scrubbed(ready)

    def finish(self) -> str:
        """The text is complete; return what was held back and is no verdict."""
        held, self._held = self._held, ""
        return "" if self._inside else self._scrubbed(held.rstrip())

    def _scrubbed(self, text: str) -> str:
        scrubbed: str = self._redactor.scrub(text)
        return scrubbed


def _beginning_of(word: str, text: str) -> int:
    """How many characters at the end of a text may be the beginning of a word."""
    for length in range(min(len(word) - 1, len(text)), 0, -1):
        if text.endswith(word[:length]):
            return length
    return 0
