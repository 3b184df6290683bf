"""What the server knows of a kind of object in the cluster: followed while somebody looks."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from orbiter.server._internal.cluster_api import Kind
from orbiter.server._internal.cluster_detail import brief_of
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.waiting import MayAsk, TaskAsks, waiting_of
from orbiter.server.cluster_models import ClusterObject, ClusterQuery

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

logger = logging.getLogger("orbiter.server")
LIST_SECONDS = 10
# a watch also ends when nobody has looked since it began, so this is how long it lives in vain
WATCH_SECONDS = 120
EVERYWHERE = "*"
Key = tuple[str, str, str]
"""Time of creation, namespace and name: the order of a list."""


class Followed:
    """The objects of one kind in one place, listed once and then watched.

    The API server hears of the first look and of no later one, however many pages are open. A
    watch during which nobody looked is the last: what was known is out of date from then on, and
    the next look lists anew.
    """

    def __init__(self, api: "ApiServer", kind: Kind, namespace: str) -> None:
        self._api = api
        self._kind = kind
        self.namespace = namespace
        self._objects: dict[Key, ClusterObject] = {}
        self.by_name: dict[tuple[str, str], ClusterObject] = {}
        self.waiting: dict[tuple[str, str], TaskAsks | MayAsk] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self._news: dict[tuple[str, str], asyncio.Event] = {}
        self._asked = False
        self._run: asyncio.Task[None] | None = None
        self._listed: asyncio.Future[None] | None = None

    async def objects(self) -> Mapping[Key, ClusterObject]:
        """Return the objects as they are now.

        Raises:
            RequestError: They cannot be listed; the next look tries again.
        """
        self._asked = True
        if self._listed is None or self._run is None or self._run.done():
            self._listed = asyncio.get_running_loop().create_future()
            self._run = asyncio.create_task(self._follow(self._listed))
        # whoever waits may leave; the others wait on
        await asyncio.shield(self._listed)
        return self._objects

    async def named(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return the objects of a name in a namespace, as the API server has them now.

        Raises:
            RequestError: They cannot be listed.
        """
        return (await self._list(namespace, name))[0]

    def version(self, name: tuple[str, str]) -> str:
        """Return of which version an object is known, by its namespace and name; "" when it is not.

        What is listed behind that is at least as new.
        """
        return self._versions.get(name, "")

    async def changed(self, name: tuple[str, str], version: str, seconds: float) -> None:
        """Return when an object is known of another version, or after so many seconds.

        Raises:
            RequestError: They cannot be listed.
        """
        await self.objects()
        if self.version(name) != version:
            return
        news = self._news.setdefault(name, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()

    async def close(self) -> None:
        """Follow no more."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def _follow(self, listed: asyncio.Future[None]) -> None:
        version = ""
        try:
            while self._asked:
                if not version:
                    items, version = await self._list()
                    self._learn(items)
                    if not listed.done():
                        listed.set_result(None)
                self._asked = False
                version = await self._watched(version)
        except RequestError as error:
            if not listed.done():
                listed.set_exception(error)
                listed.exception()  # seen, also when nobody waits any more
        finally:
            listed.cancel()

    async def _list(
        self, namespace: str | None = None, name: str | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        place = namespace or self.namespace
        try:
            return await self._api.list(self._kind, place, name=name, timeout=LIST_SECONDS)
        except Exception as error:
            where = "all namespaces" if place == EVERYWHERE else f"namespace {place}"
            words = getattr(error, "words", None) or str(error) or type(error).__name__
            raise RequestError(
                502, f"the cluster did not list {self._kind} of {where}: {words}",
                code="cluster_unreachable",
            ) from error  # fmt: skip

    async def _watched(self, version: str) -> str:
        """Take in changes until the watch ends; return where to go on, empty when it is lost."""
        changes = self._api.watch(self._kind, self.namespace, version, seconds=WATCH_SECONDS)
        try:
            async with aclosing(changes):
                async for change in changes:
                    version = change["object"]["metadata"]["resourceVersion"]
                    self._take(change["type"], change["object"])
        except Exception:
            # whatever broke it, what is there now is listed anew
            logger.info("the watch of %s ended early", self._kind, exc_info=True)
            return ""
        return version

    def _learn(self, items: list[dict[str, Any]]) -> None:
        self._objects = dict(map(_entry, items))
        self.by_name = {key[1:]: found for key, found in self._objects.items()}
        names = [(str(i["metadata"]["namespace"]), str(i["metadata"]["name"])) for i in items]
        asking = zip(names, map(waiting_of, items), strict=True)
        self.waiting = {name: found for name, found in asking if found is not None}
        self._versions = dict(zip(names, map(_version, items), strict=True))
        for name in list(self._news):
            self._tell(name)

    def _take(self, kind: str, item: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        key, entry = _entry(item)
        self.waiting.pop(key[1:], None)
        self._versions[key[1:]] = _version(item)
        if kind == "DELETED":
            self._objects.pop(key, None)
            self.by_name.pop(key[1:], None)
            self._versions.pop(key[1:], None)
        else:
            self._objects[key] = self.by_name[key[1:]] = entry
            if waits := waiting_of(item):
                self.waiting[key[1:]] = waits
        self._tell(key[1:])

    def _tell(self, name: tuple[str, str]) -> None:
        if (news := self._news.pop(name, None)) is not None:
            news.set()


def _version(item: dict[str, Any]) -> str:
    return str(item["metadata"].get("resourceVersion", ""))


def _entry(item: dict[str, Any]) -> tuple[Key, ClusterObject]:
    meta, brief = item["metadata"], brief_of(item)
    return (meta.get("creationTimestamp") or "", brief.namespace, brief.name), brief


def wanted(found: ClusterObject, query: ClusterQuery) -> bool:
    """Say whether an object is one of those that are asked for."""
    if query.phase is not None and found.phase != query.phase:
        return False
    if query.agent is not None and found.agent != query.agent:
        return False
    if query.label is not None:
        key, valued, value = query.label.partition("=")
        if key not in found.labels or (valued and found.labels[key] != value):
            return False
    text = f"{found.namespace}/{found.name} {found.message}".lower()
    return query.text is None or query.text.lower() in text
