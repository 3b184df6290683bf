"""What a request tells about a conversation, without the words of any protocol.

`anthropic` and `openai` read requests into these; `script` decides the answer from them alone. The
server keeps no conversations: every request carries its whole history.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

# What agents add to the user's words on their own.
ADDED_BY_AGENTS = re.compile(
    r"<(system-reminder|environment_context|user_instructions|permissions instructions"
    r"|INSTRUCTIONS)>.*?</\1>",
    re.DOTALL,
)

# What a worker tells a new session of the one before: it is known there, but no script.
RETOLD = re.compile(r"<earlier_conversation>.*?</earlier_conversation>", re.DOTALL)


@dataclass(frozen=True)
class Turn:
    """One prompt and what the tools have answered to it so far, oldest first."""

    prompt: str
    outputs: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The prompt without what is only retold in it."""
        return RETOLD.sub("", self.prompt)

    @property
    def retold(self) -> str:
        """What the prompt tells of an earlier conversation."""
        return "\n".join(RETOLD.findall(self.prompt))


@dataclass(frozen=True)
class Conversation:
    """The history a request carries.

    `session` is the agent's own name of the conversation, empty when it sends none; `tools` are the
    names of the tools it offers; `auxiliary` marks what an agent asks beside the conversation (a
    title, say), which must not run the script.
    """

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[str, ...] = ()
    session: str = ""
    auxiliary: bool = False
    size: int = 0

    @property
    def turn(self) -> Turn:
        """The turn that waits for an answer."""
        return self.turns[-1] if self.turns else Turn("")

    @property
    def key(self) -> str:
        """What tells this conversation from others: the session or, without one, its prompts."""
        return self.session or fingerprint("\0".join(turn.prompt for turn in self.turns))


@dataclass
class History:
    """Collects turns while a request is read."""

    turns: list[Turn] = field(default_factory=list)

    def user(self, text: str) -> None:
        """Add what the user said; what only the agent added begins no turn."""
        prompt = ADDED_BY_AGENTS.sub("", text).strip()
        if prompt:
            self.turns.append(Turn(prompt))

    def tool_output(self, text: str) -> None:
        """Add what a tool answered in the turn at hand."""
        if self.turns:
            last = self.turns[-1]
            self.turns[-1] = replace(last, outputs=(*last.outputs, text))


def fingerprint(text: str) -> str:
    """Return a short stable name of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_of(content: object) -> str:
    """Return the text of a content that is a string or a list of blocks with a `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable):
        return ""
    return "\n".join(
        str(block.get("text", "")) for block in content if isinstance(block, dict)
    ).strip()
