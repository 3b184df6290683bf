"""Somebody whom the cluster knows: each request's own, with the rights that it needs."""

import asyncio

from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.review_models import Person
from orbiter.server._internal.reviews import Reviews
from orbiter.server._internal.viewer import Right, Viewer


class ClusterViewer(Viewer):
    """Somebody whom the cluster knows, with the rights that it gives them."""

    lapses = True

    @classmethod
    async def of(cls, reviews: Reviews, token: str | None, audience: str) -> "ClusterViewer":
        """Return who presents a token; see `Reviews.person`.

        Raises:
            RequestError: 401, it is nobody's; 503, nobody can say now.
        """
        person, until = await reviews.person(token, audience)
        return cls(reviews, token or "", audience, person, until)

    def __init__(
        self, reviews: Reviews, token: str, audience: str, person: Person, until: float
    ) -> None:
        self.user = person.username
        self._reviews = reviews
        self.token: str = token
        self._audience = audience
        self._person = person
        self._until = until
        self._required: dict[Right, None] = {}

    async def acts(self) -> bool:
        """Say whether their token is theirs at the API server too, and not made for us alone.

        Raises:
            RequestError: 503, nobody can say now.
        """
        if not self._audience:
            return True
        try:
            person, _ = await self._reviews.person(self.token, "")
        except RequestError as error:
            if error.status == 401:
                return False
            raise
        return person.username == self.user

    async def may(self, right: Right) -> bool:
        """Say whether they have a right."""
        return (await self._reviews.allowed(self.token, self._person, right))[0]

    async def require(self, right: Right) -> None:
        """See that they have a right; a stream ends when it is gone.

        Raises:
            RequestError: 403, they do not; 503, nobody can say now.
        """
        allowed, until = await self._reviews.allowed(self.token, self._person, right)
        if not allowed:
            raise RequestError(403, self._refusal(right), code="forbidden")
        self._required[right] = None
        self._until = min(self._until, until)

    async def lapsed(self) -> None:
        """Return when token or rights are gone, or when nobody can say any more."""
        try:
            while True:
                await asyncio.sleep(max(0.0, self._until - self._reviews.clock()))
                self._person, self._until = await self._reviews.person(self.token, self._audience)
                if self._person.username != self.user:
                    return
                for right in list(self._required):
                    await self.require(right)
        except RequestError:
            return

    def _refusal(self, right: Right) -> str:
        if right.path:
            return f"{self.user} may not {right.verb} {right.path}: it needs a ClusterRole for it"
        what = f"{right.resource}.{right.group}".removesuffix(".")
        space = self._reviews.space(right)
        name = f" {right.name}" if right.name else ""
        return (
            f"{self.user} may not {right.verb} {what}{name} in namespace {space}: who gives rights "
            f"there can; 'kubectl auth can-i {right.verb} {what} -n {space}' says when it is so"
        )
