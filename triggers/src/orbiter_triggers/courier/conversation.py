"""The comments of an issue or a pull request, as far as a task goes by them."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from orbiter_triggers.courier.answers import AnswerTooLargeError
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.lists import kept
from orbiter_triggers.courier.pages import SIZES
from orbiter_triggers.events.values import inside, text

MOST_PAGES: Final = 20
_CLOCKS: Final = timedelta(minutes=1)
"""By so much the cluster's clock may be ahead of GitHub's."""


class TooManyCommentsError(Exception):
    """There are more comments than are read."""


class Said(NamedTuple):
    """A comment.

    Attributes:
        author: Its author's login; "" when the account is gone.
        program: Whether no person wrote it.
    """

    id: int
    author: str
    program: bool
    body: str
    created: datetime


class Thread(NamedTuple):
    """What was said since a moment, the oldest first; `etag` is that of the first page."""

    comments: list[Said]
    etag: str


class Conversations:
    """Those of all repositories.

    Args:
        github: The API.
    """

    def __init__(self, github: Github) -> None:
        self._github = github

    async def since(
        self, repository: str, number: int, moment: datetime, etag: str = ""
    ) -> Thread | None:
        """What was said in one since about a moment; None when nothing has changed.

        Args:
            repository: As OWNER/NAME.
            number: Of the issue or the pull request.
            moment: From when on.
            etag: Of what is known.

        Raises:
            GithubBusyError: Not now.
            GithubError: It is not there.
            TooManyCommentsError: It cannot be read to its end.
        """
        for size in SIZES:
            try:
                return await self._walk(repository, number, moment, etag, size)
            except AnswerTooLargeError:
                etag = ""
        raise TooManyCommentsError(f"comments of {repository}#{number} are too large")

    async def _walk(
        self, repository: str, number: int, moment: datetime, etag: str, size: int
    ) -> Thread | None:
        path = f"/repos/{repository}/issues/{number}/comments"
        since = (moment - _CLOCKS).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found, first = list[Said](), ""
        for page in range(1, MOST_PAGES + 1):
            query = {"since": since, "per_page": str(size), "page": str(page)}
            known = etag if page == 1 else ""
            answer = await self._github.get(path, query, etag=known)
            if answer.status == 304:
                return None
            first = answer.etag if page == 1 else first
            batch = answer.body if isinstance(answer.body, list) else []
            found += [said for one in batch if (said := _said(kept(one))) is not None]
            if len(batch) < size:
                # Only a list of one page is as it was while that is.
                return Thread(found, first if page == 1 else "")
        raise TooManyCommentsError(f"{repository}#{number} has too many comments")


def _said(item: Any) -> Said | None:
    identity = inside(item, "id")
    try:
        created = datetime.fromisoformat(text(item, "created_at"))
    except ValueError:
        return None
    if not isinstance(identity, int) or created.tzinfo is None:
        return None
    author = text(item, "user", "login")
    person = text(item, "user", "type") == "User" and not author.endswith("[bot]")
    by_app = inside(item, "performed_via_github_app") is not None
    return Said(identity, author, not person or by_app, text(item, "body"), created)
