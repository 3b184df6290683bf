"""What the server remembers between requests: counts, for failures that end and for the tests.

Everything else follows from the request itself, so a restarted server only forgets which attempt a
prompt is at and how often it has failed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .conversation import Conversation, fingerprint

EXCERPT = 200


@dataclass
class PromptRecord:
    """The conversations that began with one prompt, in the order in which they came."""

    excerpt: str
    sessions: list[str] = field(default_factory=list)
    requests: int = 0


@dataclass
class Journal:
    """Counts of requests, of answers, and of the conversations per first prompt."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, PromptRecord] = field(default_factory=dict)
    auxiliary: int = 0
    active: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)

    def attempt(self, conversation: Conversation) -> int:
        """Note a request of a conversation; return which one of its prompt's it is, from 1."""
        prompt = conversation.turn.prompt
        record = self.prompts.setdefault(fingerprint(prompt), PromptRecord(prompt[:EXCERPT]))
        record.requests += 1
        if conversation.key not in record.sessions:
            record.sessions.append(conversation.key)
        return record.sessions.index(conversation.key) + 1

    def fail_again(self, key: str, times: int) -> bool:
        """Say whether the failure `key` has happened less than `times` times, and count it."""
        if self.failures[key] >= times:
            return False
        self.failures[key] += 1
        return True

    def report(self) -> dict[str, object]:
        """Return the counts as GET /stats answers them."""
        return {
            "active": self.active,
            "requests": dict(self.requests),
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "auxiliary": self.auxiliary,
            "prompts": [
                {
                    "prompt": record.excerpt,
                    "conversations": len(record.sessions),
                    "requests": record.requests,
                }
                for record in self.prompts.values()
            ],
        }
