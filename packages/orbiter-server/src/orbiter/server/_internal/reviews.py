"""Who asks, and what they may: decided by the cluster, by TokenReview and SubjectAccessReview.

An answer is kept for seconds, under a hash of the token. Where the API server cannot be asked there
is no answer, and no answer is never a yes.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from orbiter.server._internal.cluster_api import connected, in_reach
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.recent import Recent
from orbiter.server._internal.review_models import (
    AUTHENTICATION,
    AUTHORIZATION,
    Person,
    access_review,
    allowed_by,
    person_of,
    token_review,
)
from orbiter.server._internal.viewer import Right
from orbiter.server.config import ServerConfig
from orbiter.types import OrbiterError

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

V = TypeVar("V")
logger = logging.getLogger("orbiter.server")
YES_SECONDS = 10.0
"""How long a yes holds: a right that is taken away is gone after so long."""
NO_SECONDS = 5.0
MOST_TOKENS = 1000
MOST_RIGHTS = 20_000
AT_ONCE = 16
OF_A_PERSON = 8
"""Of these, so that nobody keeps all others waiting."""
OF_STRANGERS = 8
"""Beside these: tokens that were nobody's, or were not seen yet. Anybody can send a million."""
ASK_SECONDS = 5.0
# a token of the cluster has about a thousand characters, one of an identity provider some thousands
MOST_CHARACTERS = 16_384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_UNKNOWN = "the cluster's API server cannot say {what} now; the server's log says why: try again"


class Reviews:
    """Asks the API server, a few questions at a time, and remembers for seconds."""

    def __init__(
        self,
        kubeconfig: Path | None,
        audience: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.audience = audience
        self.clock = clock
        self._kubeconfig = kubeconfig
        self._tokens: Recent[tuple[bytes, str], Person | None] = Recent(MOST_TOKENS, clock)
        self._rights: Recent[tuple[bytes, Right], bool] = Recent(MOST_RIGHTS, clock)
        # connections of its own: those that follow the cluster are busy with that for minutes
        self._api: ApiServer | None = None
        self._own = ""
        self._connecting = asyncio.Lock()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._strangers = asyncio.Semaphore(OF_STRANGERS)
        self._persons = WeakValueDictionary[str, asyncio.Semaphore]()

    async def person(self, token: str | None, audience: str) -> tuple[Person, float]:
        """Return whose a token is, and until when that holds.

        Args:
            token: As it came; None is none.
            audience: For whom it has to be made; empty is the API server.

        Raises:
            RequestError: 401, it is nobody's; 503, nobody can say now.
        """
        if token is None:
            raise self._needed("this needs a token of the cluster, as 'Authorization: Bearer ...'")
        if len(token) > MOST_CHARACTERS or not _TOKEN.fullmatch(token):
            raise self._needed("this is no token of a cluster")

        async def ask() -> Person | None:
            def read(answer: object) -> Person | None:
                return person_of(answer, audience)

            body = token_review(token, audience)
            slots = self._slots if self._tokens.had(key) else self._strangers
            return await self._review(
                AUTHENTICATION, "tokenreviews", lambda _: body, read, "who you are", slots
            )

        key = (_hash(token), audience)
        person, until = await self._tokens.get(key, ask, _seconds)
        if person is None:
            wanted = f" for the audience {audience}" if audience else ""
            raise self._needed(f"the cluster knows no such token{wanted}, or it has expired")
        return person, until

    async def allowed(self, token: str, person: Person, right: Right) -> tuple[bool, float]:
        """Say whether somebody has a right, and until when that holds.

        Raises:
            RequestError: 503, nobody can say now.
        """

        async def ask() -> bool:
            theirs = self._persons.setdefault(person.username, asyncio.Semaphore(OF_A_PERSON))
            return await self._review(
                AUTHORIZATION, "subjectaccessreviews",
                lambda own: access_review(person, right, own), allowed_by, "what you may do",
                theirs, self._slots,
            )  # fmt: skip

        # of the person too: whose a token is may change while it is the same
        whose = hashlib.sha256(person.model_dump_json().encode()).digest()
        return await self._rights.get((_hash(token) + whose, right), ask, _seconds)

    def space(self, right: Right) -> str:
        """Return the namespace of a right that was asked about; empty for all of them."""
        return self._own if right.namespace is None else right.namespace

    async def close(self) -> None:
        """Close the connections."""
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _connect(self) -> "ApiServer":
        async with self._connecting:
            if self._api is None:
                self._api, self._own = await connected(self._kubeconfig)
            return self._api

    async def _review(
        self,
        group: str,
        plural: str,
        body: Callable[[str], dict[str, Any]],
        read: Callable[[object], V],
        what: str,
        *slots: asyncio.Semaphore,
    ) -> V:
        try:
            # not in the time that a question has: the first loads hundreds of modules
            api = await self._connect()
            asked = body(self._own)
            async with asyncio.timeout(ASK_SECONDS), AsyncExitStack() as stack:
                for each in slots:
                    await stack.enter_async_context(each)
                return read(await api.review(group, plural, asked, timeout=ASK_SECONDS))
        except Exception as error:
            # not its words: they may quote what was asked, and that has the token
            status = getattr(error, "status", "")
            logger.error("a review of %s failed: %s %s", plural, type(error).__name__, status)
            raise RequestError(
                503, _UNKNOWN.format(what=what), code="cluster_unreachable", retry_after=2
            ) from None

    def _needed(self, problem: str) -> RequestError:
        wanted = f" --audience={self.audience}" if self.audience else ""
        return RequestError(
            401, f"{problem}: 'kubectl create token SERVICEACCOUNT -n NAMESPACE{wanted}' makes one",
            code="cluster_token",
        )  # fmt: skip


def reviews_of(config: ServerConfig) -> Reviews | None:
    """Return what the configuration asks for, if it does.

    Raises:
        OrbiterError: There is no cluster, or no client of one.
    """
    if config.auth != "kubernetes":
        return None
    if not in_reach(config.kubeconfig):
        raise OrbiterError(
            "auth is kubernetes, and there is no cluster to ask: run the server in one, with its "
            "service account's token mounted, or give a kubeconfig"
        )
    if find_spec("kubernetes") is None:
        raise OrbiterError(
            "auth=kubernetes needs the extra: pip install 'orbiter-server[kubernetes]'"
        )
    return Reviews(config.kubeconfig, config.audience)


def _seconds(answer: object) -> float:
    return YES_SECONDS if answer else NO_SECONDS


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
