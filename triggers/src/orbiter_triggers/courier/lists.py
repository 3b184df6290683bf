"""The lists of a repository that a poll reads, each the newest first; and what is kept of an item.

All are pages of what was made last, so a poll reads until it meets what it knows. Their first page
has the same address each time, so that its ETag holds while nothing happens. Pure.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from orbiter_contracts.bounds import shortened
from orbiter_contracts.trigger_events import MAX_LABELS, MAX_PROSE
from orbiter_triggers.events.filters import may_fire
from orbiter_triggers.events.values import inside, text
from orbiter_triggers.models import TriggerSpec

OVERLAP: Final = timedelta(minutes=2)
"""So far back is read again: what was made at a moment may be listed a little later."""
ACTIONS: Final = frozenset(
    {"labeled", "unlabeled", "reopened", "closed", "assigned", "unassigned", "milestoned"}
    | {"demilestoned", "locked", "unlocked", "pinned", "unpinned", "ready_for_review"}
)
"""Of an issue or a pull request; here they are called what a webhook calls them."""
_NEWEST: Final = {"sort": "created", "direction": "desc"}
_OLDEST: Final = 1970
_DEPTH: Final = 8
_FIELDS: Final = 200
_LONGEST: Final = MAX_PROSE + 512


class Listing(NamedTuple):
    """One list.

    Attributes:
        name: What it is called in the state of the poll.
        path: Behind the repository's.
        params: Its query.
        kinds: The events that are found in it.
        moment: The field that says when an item was made.
    """

    name: str
    path: str
    params: Mapping[str, str]
    kinds: frozenset[str]
    moment: str = "created_at"


LISTS: Final = (
    Listing(
        *("issues", "/issues", {"state": "all", **_NEWEST}),
        frozenset({"issues.opened", "pull_request.opened"}),
    ),
    Listing(
        *("events", "/issues/events", {}),
        frozenset(f"{head}.{one}" for head in ("issues", "pull_request") for one in ACTIONS),
    ),
    Listing("comments", "/issues/comments", _NEWEST, frozenset({"issue_comment.created"})),
    Listing(
        *("reviews", "/pulls/comments", _NEWEST),
        frozenset({"pull_request_review_comment.created"}),
    ),
    Listing(
        *("pushes", "/activity", {}),
        frozenset({"push", "pull_request.synchronize"}),
        "timestamp",
    ),
)


def lists_of(spec: TriggerSpec) -> tuple[Listing, ...]:
    """Those in which there may be something for a trigger; none where a poll cannot name a task.

    A delivery has an id that is GitHub's secret until it comes, and the address of a push is
    written in two ways.
    """
    if spec.key == "delivery":
        return ()
    return tuple(
        one
        for one in LISTS
        if any(may_fire(kind, spec.filters) for kind in one.kinds)
        and not (one.name == "pushes" and spec.key == "url")
    )


def moment_of(listing: Listing, item: Any) -> datetime | None:
    """When an item was made; None when it does not say so."""
    try:
        found = datetime.fromisoformat(text(item, listing.moment))
        return found.astimezone(UTC) if found.tzinfo and found.year > _OLDEST else None
    except (ValueError, OverflowError):
        return None


def identity_of(item: Any) -> str:
    """What is the item's alone in its list."""
    return text(item, "id")[:64]


def kept(value: Any, depth: int = _DEPTH) -> Any:
    """As much of an item as events are made of: a poll may hold thousands."""
    if isinstance(value, str):
        return shortened(value, _LONGEST)
    if depth == 0:
        return None
    if isinstance(value, dict):
        some = list(value.items())[:_FIELDS]
        # Addresses of everything around are most of it.
        return {
            name: kept(one, depth - 1)
            for name, one in some
            if not name.endswith("url") or name in _ADDRESSES
        }
    if isinstance(value, list):
        return [kept(one, depth - 1) for one in value[: MAX_LABELS + 1]]
    return value


_ADDRESSES: Final = ("html_url", "issue_url", "pull_request_url")


def number_in_url(item: Any, name: str) -> int | None:
    """The number of an issue or a pull request, which a comment has in an address alone."""
    tail = str(inside(item, name) or "").rpartition("/")[2]
    return int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 12 else None
