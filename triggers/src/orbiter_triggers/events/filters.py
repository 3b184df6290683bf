"""Whether a trigger makes a task of an event, and what names that task. Pure.

What a program has done starts nothing, whatever the filters say: not a bot's comment, not Orbiter's
own. What names the task follows from the event's own words, so that the same thing told twice, by a
webhook and by a poll for instance, has one name.
"""

import re
from fnmatch import translate
from functools import lru_cache
from typing import Final, NamedTuple

from orbiter_contracts.bounds import one_line
from orbiter_contracts.trigger_events import TriggerEvent
from orbiter_triggers.models import Filters, KeyField, TriggerSpec

SERVED: Final = frozenset(
    {
        *("issues.opened", "issues.reopened", "issues.labeled", "issue_comment.created"),
        *("pull_request.opened", "pull_request.reopened", "pull_request.labeled"),
        *("pull_request.synchronize", "pull_request.ready_for_review"),
        *("pull_request_review.submitted", "pull_request_review_comment.created"),
        *("push", "release.published", "workflow_run.completed"),
    }
)
"""Kinds of GitHub's events that count where `filters.events` names none."""
_WITH_COMMENT: Final = frozenset(
    {"issue_comment", "pull_request_review", "pull_request_review_comment", "commit_comment"}
    | {"discussion_comment"}
)
_BY_COMMIT: Final = frozenset({"push", "workflow_run"})
_GONE: Final = "0" * 40
_SHOWN: Final = 60


class Verdict(NamedTuple):
    """What an event is to a trigger.

    Attributes:
        key: What names its task; "" when there is none.
        why: Why there is none, as a sentence.
    """

    key: str = ""
    why: str = ""


def verdict(event: TriggerEvent, spec: TriggerSpec) -> Verdict:
    """Hold an event against a trigger's source, filters and key."""
    why = _from_elsewhere(event, spec) or _unwanted(event, spec.filters)
    if why:
        return Verdict(why=why)
    key = event_key(event, spec.key)
    if not key:
        field = spec.key or "key"
        return Verdict(why=f"{_kind(event)} has no {field}, which spec.key names the task by")
    return Verdict(key=key)


def event_key(event: TriggerEvent, field: KeyField | None) -> str:
    """What names the task of an event; "" when the event has no such field.

    Args:
        event: The event.
        field: As the trigger says, or None for what is usual of such an event.
    """
    head = event.kind.partition(".")[0]
    if field is None:
        field = _usual(event, head)
    value = {
        # The ids of an issue's comments, of reviews and of their comments are counted apart.
        "comment": event.comment_id and f"{head}:{event.comment_id}",
        "commit": event.commit,
        "number": event.number,
        "delivery": event.identity,
        "url": event.url,
    }[field]
    return f"{field}:{value}" if value else ""


def _usual(event: TriggerEvent, head: str) -> KeyField:
    if event.scheme != "github":
        return "delivery"
    if head in _WITH_COMMENT:
        return "comment"
    if head in _BY_COMMIT or event.kind == "pull_request.synchronize":
        return "commit"
    return "number" if event.number else "delivery"


def may_fire(kind: str, filters: Filters) -> bool:
    """Whether a kind of GitHub's events can make a task, whatever else an event of it says."""
    head = kind.partition(".")[0]
    spoken = head in _WITH_COMMENT
    if filters.comment and not spoken:
        return False
    if filters.events:
        return not {head, kind}.isdisjoint(filters.events)
    return kind in SERVED and (not spoken or bool(filters.comment))


def has_command(comment: str, command: str) -> bool:
    """Whether a line of a comment begins with a command, and not with a longer word."""
    return any(
        line == command or (line.startswith(command) and line[len(command)].isspace())
        for line in map(str.strip, comment.splitlines())
    )


def _from_elsewhere(event: TriggerEvent, spec: TriggerSpec) -> str:
    """Why an event is none of the trigger's source."""
    github, webhook = spec.source.github, spec.source.webhook
    scheme = "github" if github else webhook.scheme if webhook else ""
    if event.scheme != scheme:
        return f"it came as {event.scheme}, and spec.source is {scheme or 'cron'}"
    if github and event.repository.lower() != github.repository.lower():
        named = one_line(event.repository, _SHOWN) or "none"
        return f"its repository is {named}, not {github.repository}"
    return ""


def _unwanted(event: TriggerEvent, filters: Filters) -> str:
    """Which of the filters does not let an event pass."""
    if event.program:
        return f"a program did it ({one_line(event.author, _SHOWN) or 'without a name'}), no person"
    if why := _kind_unwanted(event, filters):
        return why
    if event.scheme == "github" and filters.authors == "Writers" and not event.writer:
        who = one_line(event.author, _SHOWN)
        return f"nothing says that {who} may write to the repository, filters.authors is Writers"
    if filters.comment and not has_command(event.comment, filters.comment):
        return f"no line of a comment begins with {filters.comment}"
    if filters.labels and not set(filters.labels) & set(event.labels):
        return f"it has none of the labels {', '.join(filters.labels)}"
    if filters.branches and not _one_matches((event.branch,), filters.branches):
        return f"its branch is {one_line(event.branch, _SHOWN) or 'none'}"
    # Of so many files that not all are told, one may be one of these.
    if filters.paths and not event.paths_cut and not _one_matches(event.paths, filters.paths):
        return "it changes none of the files in filters.paths"
    return ""


def _kind_unwanted(event: TriggerEvent, filters: Filters) -> str:
    head, kind = event.kind.partition(".")[0], _kind(event)
    if filters.events:
        named = {head, event.kind} if event.scheme == "github" else {event.kind}
        return "" if named & set(filters.events) else f"filters.events does not name {kind}"
    if event.scheme != "github":
        return ""
    if event.kind not in SERVED:
        return f"{kind} makes a task only where filters.events names it"
    if head in _WITH_COMMENT and not filters.comment:
        return f"{kind} makes a task only where filters.comment or filters.events is written"
    if event.kind == "push" and (not event.commit or event.commit == _GONE):
        return "the branch was deleted"
    return ""


def _kind(event: TriggerEvent) -> str:
    return one_line(event.kind, _SHOWN) or "an event without a name"


def _one_matches(values: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    return any(_pattern(one).fullmatch(value) for one in patterns for value in values if value)


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    r"""`*` stands for any characters, and nothing else for anything but itself.

    `translate` makes of stars what no text takes long to be held against.
    """
    return re.compile(translate("".join(f"[{one}]" if one in "?[" else one for one in text)))
