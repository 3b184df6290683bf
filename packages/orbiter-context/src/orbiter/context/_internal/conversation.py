"""Keeps a conversation within its window: which rounds are shown, and what stands for the rest.

The run loop hands over the whole conversation at the start of every run. The ledger remembers how
much of it has left the window already, so that each round is filed and summarised once.
"""

from collections.abc import Awaitable, Callable
from copy import copy
from hashlib import blake2b

from orbiter.context._internal.blocks import Fitted, passages_block, summary_block, with_block
from orbiter.context._internal.seams import Summarizing
from orbiter.context._internal.summarizer import (
    MAX_GIST_CHARS,
    MAX_STATEMENT_CHARS,
    Lines,
    gist,
    statements,
    summarized,
)
from orbiter.context.config import ContextConfig
from orbiter.memory.extraction import transcript
from orbiter.types import AssistantMessage, Message, Usage, UserMessage

Round = list[Message]
File = Callable[[str, list[str]], Awaitable[None]]
Recall = Callable[[str, int], Awaitable[list[str]]]


class Ledger:
    """What is known of the rounds of one conversation that have left its window.

    Attributes:
        number: Which conversation of this agent it is, from 1.
        left: How many rounds have left.
        last: Fingerprint of the newest of them; tells whether a conversation is this one.
        summary: What a model wrote of them; "" while none has.
        statements: Sentences of theirs that state something.
        gist: A line for each message the summary does not cover yet.
        pending: The messages it does not cover yet.
    """

    def __init__(self, number: int = 1) -> None:
        self.number = number
        self.left = 0
        self.last = ""
        self.summary = ""
        self.statements = Lines(MAX_STATEMENT_CHARS)
        self.gist = Lines(MAX_GIST_CHARS)
        self.pending: list[Message] = []
        self.unread_rounds = 0

    def copy(self) -> "Ledger":
        """Return a ledger that goes on by itself."""
        other = copy(self)
        other.statements = Lines(MAX_STATEMENT_CHARS, self.statements.all())
        other.gist = Lines(MAX_GIST_CHARS, self.gist.all())
        other.pending = list(self.pending)
        return other

    def knows(self, rounds: list[Round]) -> bool:
        """Whether these rounds go on from what has left."""
        return len(rounds) >= self.left > 0 and fingerprint(rounds[self.left - 1]) == self.last

    def take(self, round_: Round) -> None:
        """Note a round that leaves the window."""
        self.left += 1
        for statement in statements(round_):
            self.statements.add(statement)
        for line in gist(round_):
            self.gist.add(line)
        self.pending.extend(round_)
        self.unread_rounds += 1

    def summary_due(self, config: ContextConfig) -> bool:
        """Whether a model should read the rounds that left: at first, then a batch at a time."""
        batch = max(1, config.summary_threshold - config.history_rounds)
        return self.unread_rounds >= (batch if self.summary else 1)

    async def summarize(self, provider: Summarizing | None) -> list[Usage]:
        """Let a model, if there is one, write the summary; return what that took."""
        pending, self.pending, self.unread_rounds = self.pending, [], 0
        written = await summarized(self.summary, pending, provider) if provider else None
        if written is None:
            return []
        self.summary, taken = written
        self.gist.clear()
        return taken

    def text(self) -> str:
        """Return what stands for the rounds that have left."""
        parts = [self.summary] if self.summary else []
        if stated := self.statements.all():
            parts.append("\n".join(["The user stated:", *(f"- {line}" for line in stated)]))
        if said := self.gist.all():
            parts.append("\n".join(["Then:" if self.summary else "Most recently:", *said]))
        return "\n\n".join(parts)


def split_rounds(messages: list[Message]) -> list[Round]:
    """Split a conversation before each user message; a call is never parted from its result."""
    rounds: list[Round] = []
    for message in messages:
        if isinstance(message, UserMessage) or not rounds:
            rounds.append([message])
        else:
            rounds[-1].append(message)
    return rounds


def window(
    history: list[Message], input: str, limit: int, batch: int = 1
) -> tuple[list[Round], list[Round]]:
    """Decide which rounds the model sees.

    Args:
        history: The conversation before the running turn; after a handoff it ends with the
            running round.
        input: What the running turn was started with.
        limit: How many rounds are shown at most, the running one included.
        batch: How many leave at a time.

    Returns:
        The rounds that are left out, and those that are shown.
    """
    if len(history) < limit:
        return [], [history] if history else []
    rounds = split_rounds(history)
    running = rounds[-1][0]
    begun = not input or (isinstance(running, UserMessage) and running.content == input)
    keep = limit if begun else limit - 1
    if len(rounds) <= keep:
        return [], rounds
    leave = min(-(-(len(rounds) - keep) // batch) * batch, len(rounds) - begun)
    return rounds[:leave], rounds[leave:]


def limits(config: ContextConfig) -> tuple[int, int]:
    """Return how many rounds are shown at most, and how many leave at a time.

    A summary that is due before the window is full makes room for half as many rounds as make it
    due, so that not every further one needs another.
    """
    if config.summary_threshold < config.history_rounds:
        return config.summary_threshold, max(1, config.summary_threshold // 2)
    return config.history_rounds, 1


def fingerprint(round_: Round) -> str:
    """Return a short digest of what was said in a round."""
    digest = blake2b(digest_size=12)
    for message in round_:
        if isinstance(message, (UserMessage, AssistantMessage)):
            digest.update(f"{message.role}\x1f{message.content}\x1e".encode(errors="surrogatepass"))
    return digest.hexdigest()


async def fit(
    history: list[Message],
    input: str,
    ledgers: dict[str, Ledger],
    *,
    agent_name: str,
    config: ContextConfig,
    provider: Summarizing | None,
    file: File,
    recall: Recall,
    record: Callable[[Usage], None],
) -> Fitted:
    """Return the conversation as the model is to see it.

    Args:
        history: The whole conversation before the running turn.
        input: What the running turn was started with.
        ledgers: What is known of the agents' conversations; it is brought up to date.
        agent_name: The agent that is about to run.
        config: Window and threshold.
        provider: Writes the summary; without one it is made of the conversation's sentences.
        file: Adds the texts of rounds to a document.
        recall: Returns passages that matter now of a document with so many rounds.
        record: Notes what a summary took.

    Returns:
        What fits; the same list when all of it does.
    """
    left, shown = window(history, input, *limits(config))
    if not left:
        return Fitted(history)
    ledger = ledgers.get(agent_name)
    if ledger is None or not ledger.knows(left + shown):
        ledger = ledgers[agent_name] = Ledger(ledger.number + 1 if ledger else 1)
    document = document_name(agent_name, ledger.number)
    leaving = left[ledger.left :]
    for round_ in leaving:
        ledger.take(round_)
    ledger.last = fingerprint((left + shown)[ledger.left - 1])
    if leaving:
        await file(document, [transcript(round_) + "\n" for round_ in leaving])
    if len(left) + config.history_rounds <= config.summary_threshold:
        return with_block([message for round_ in shown for message in round_], "")
    if ledger.summary_due(config):
        for usage in await ledger.summarize(provider):
            record(usage)
    summary, passages = ledger.text(), await recall(document, ledger.left)
    fitted = with_block([m for round_ in shown for m in round_], summary_block(summary))
    return fitted._replace(passages=passages_block(summary, passages))


def document_name(agent_name: str, number: int) -> str:
    """Return the name under which an agent's rounds are filed in the knowledge."""
    return f"conversation/{agent_name}" + (f"/{number}" if number > 1 else "")
