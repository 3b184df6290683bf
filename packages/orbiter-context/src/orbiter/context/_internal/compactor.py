"""A conversation as the model sees it, read message by message, with what it takes.

The run loop hands over a longer copy of the same conversation at every step. `Shown` remembers how
far it was read and what was replaced, so a step costs what is new in it, and what was sent before
is sent again as it was: vendors cache what does not change.
"""

from collections import deque
from collections.abc import Callable
from operator import eq, is_

from orbiter.context._internal.blocks import Fitted, fronted
from orbiter.context._internal.conversation import Ledger
from orbiter.context._internal.shortening import LARGE_CHARS, Store, shortened
from orbiter.types import Message, ToolResult, UserMessage

KEEP_RESULTS = 8
# Navigator waits until there are so many: each time something is shortened, caches are lost.
MOST_RESULTS = 2 * KEEP_RESULTS

Size = Callable[[Message], int]


class Shown:
    """A conversation as the model sees it, and how far it was read.

    Attributes:
        messages: What is shown of it.
        sizes: The tokens of each.
        tokens: Those of all.
        changed: Whether that is not what the run loop has.
        checked: Whether the conversation of this run is known to go on from what was read.
        block: What stands for the beginning, once a model sees less than all of it.
        prompt: The user's message that the block is shown with.
        ledger: What is known of the beginning.
        fitted: What was made of the conversation before the run.
        large: Where the large tool results are that nobody has shortened.
    """

    __slots__ = (
        "block", "changed", "checked", "fitted", "large", "ledger", "messages", "prompt", "sizes",
        "source", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fitted = Fitted([])
        self._begin()

    def _begin(self) -> None:
        self.source: list[Message] = []
        self.messages: list[Message] = []
        self.sizes: list[int] = []
        self.tokens = 0
        self.changed = False
        self.checked = True
        self.block = ""
        self.prompt: UserMessage | None = None
        self.ledger: Ledger | None = None
        self.large: deque[int] = deque()

    def next_run(self, fitted: Fitted) -> None:
        """Expect the conversation of another run, which may go on from this one."""
        self.fitted, self.checked = fitted, False

    def read(self, messages: list[Message], size: Size) -> None:
        """Take in what is new of a conversation.

        Args:
            messages: All of it, as the run loop has it.
            size: Counts the tokens of a message.
        """
        if not self._goes_on(messages):
            self._begin()
            if self.fitted.block and messages and messages[0] is self.fitted.messages[0]:
                self.block, self.prompt = self.fitted.block, self.fitted.first
        self.checked = True
        for message in messages[len(self.source) :]:
            if isinstance(message, ToolResult) and len(message.content) > LARGE_CHARS:
                self.large.append(len(self.messages))
            self.source.append(message)
            tokens = size(message)
            self.messages.append(message)
            self.sizes.append(tokens)
            self.tokens += tokens

    def _goes_on(self, messages: list[Message]) -> bool:
        known = len(self.source)
        if len(messages) < known:
            return False
        if self.checked:
            return not known or messages[known - 1] is self.source[-1]
        # a new run: the same objects, or equal ones that were read from somewhere
        same = all(map(is_, self.source, messages))
        return same or all(map(eq, self.source, messages))

    def says(self, text: str) -> bool:
        """Whether a message that is shown has a text in the same words."""
        shown = self.messages if self.checked else self.fitted.messages
        return any(text in message.content for message in shown)

    def replace(self, at: int, message: Message, tokens: int) -> None:
        """Show another message in the place of one."""
        self.tokens += tokens - self.sizes[at]
        self.messages[at], self.sizes[at] = message, tokens
        self.changed = True

    def cut(self, at: int, block: str, prompt: UserMessage, size: Size) -> None:
        """Show a block of text and a prompt in place of all before a position.

        Args:
            at: The first message that stays.
            block: What stands for those before.
            prompt: What the user said that the others belong to.
            size: Counts the tokens of a message.
        """
        head = fronted(block, prompt)
        self.messages[:at], self.sizes[:at] = [head], [size(head)]
        self.tokens = sum(self.sizes)
        self.large = deque(place - at + 1 for place in self.large if place >= at)
        self.block, self.prompt, self.changed = block, prompt, True


async def shorten_old_results(shown: Shown, store: Store, size: Size) -> None:
    """Shorten all but the newest large tool results.

    Args:
        shown: The conversation.
        store: Puts a text in a safe place and returns what stands for it.
        size: Counts the tokens of a message.
    """
    while len(shown.large) > KEEP_RESULTS:
        at = shown.large.popleft()
        short = await shortened(shown.messages[at], store)
        shown.replace(at, short, size(short))
