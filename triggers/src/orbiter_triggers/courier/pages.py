"""The pages of a list, until something is met that is known.

Where strangers have written so much that a page cannot be read, smaller ones are.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from orbiter_triggers.courier.answers import AnswerTooLargeError
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.lists import Listing, identity_of, kept, moment_of
from orbiter_triggers.courier.poll_state import Reached
from orbiter_triggers.courier.rate_limits import RESERVED

log = structlog.get_logger(__name__)
SIZES: Final = (100, 20, 4)
MOST_PAGES: Final = 20
"""Of a list in a round: 2,000 items. What is older than these is lost to the poll."""


class Fresh(NamedTuple):
    """What is new in a list.

    Attributes:
        items: The moment, the identity and the item of each, the oldest first.
        etag: Of the first page.
    """

    items: list[tuple[datetime, str, dict[str, Any]]]
    etag: str


class Pages:
    """Those of one list.

    Args:
        github: The API.
        home: The repository's path.
        listing: The list.
    """

    def __init__(self, github: Github, home: str, listing: Listing) -> None:
        self._github = github
        self._path = home + listing.path
        self._listing = listing

    async def since(self, begin: datetime, known: Reached) -> Fresh | None:
        """What is new; None when nothing has changed.

        Args:
            begin: Nothing that was made before counts.
            known: How far it was read.

        Raises:
            GithubBusyError: Not now.
            GithubError: There is no such list.
            AnswerTooLargeError: Even the smallest page is too large.
        """
        for size in SIZES[:-1]:
            try:
                return await self._walk(size, begin, known)
            except AnswerTooLargeError:
                log.info("smaller pages", list=self._listing.name, than=size)
        return await self._walk(SIZES[-1], begin, known)

    async def _walk(self, size: int, begin: datetime, known: Reached) -> Fresh | None:
        since, seen = max(begin, known.since), known.identities
        found, etag = dict[str, tuple[datetime, str, dict[str, Any]]](), ""
        for page in range(1, MOST_PAGES + 1):
            # A first page that is the same has nothing new behind it.
            last = known.etag if page == 1 and size == SIZES[0] else ""
            query = {**self._listing.params, "per_page": str(size), "page": str(page)}
            answer = await self._github.get(self._path, query, etag=last, reserved=RESERVED)
            if answer.status == 304:
                return None
            if page == 1:
                etag = answer.etag
            batch = answer.body if isinstance(answer.body, list) else []
            older = False
            for item in batch:
                moment, identity = moment_of(self._listing, item), identity_of(item)
                if moment is None or not identity:
                    continue
                older = older or moment < since
                if moment >= since and identity not in seen:
                    found[identity] = moment, identity, kept(item)
            if older or len(batch) < size:
                break
        else:
            log.warning("more than a poll reads", path=self._path, items=len(found))
        return Fresh(
            sorted(found.values(), key=lambda one: one[:2]), etag if size == SIZES[0] else ""
        )
