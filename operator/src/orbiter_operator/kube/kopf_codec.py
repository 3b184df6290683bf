"""What kopf reads of the API server, bounded and thinned out, and what it keeps of it: nothing.

kopf decodes with Python's own json, which gives up from a thousand levels on; that ends kopf, and
the next one reads the same object. It is given an HTTP session of ours, so its responses are ours.

kopf spends some 0.6 ms CPU on an event: a task, a timer, three loggers, a context. So what the
cache knows already, the echo of our own write most of all, reaches kopf as a bookmark, for which
it does nothing but remember the version. And a list says also what it does not have any more:
kopf itself would never tell of an object that was deleted while no watch ran.

kopf keeps what it saw last and how far its handlers are in annotations, and reads both at every
event, also where there are only `on.event` handlers that need neither. Annotations are written by
whoever may write the object: what is no JSON there would end the event before it reached us.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import aiohttp
import kopf
import orjson

from orbiter_operator.kube.cache import Cache, Object, version_of
from orbiter_operator.kube.connection import LIST, events, read
from orbiter_operator.kube.names import Key
from orbiter_operator.kube.resources import Resource

MISSING = "Missing"
"""The `kind` under which a list names an object that it does not have and the cache has."""
_GONE = 410
_END_SECONDS = 0.2
_ERROR_SECONDS = 2.0
"""Before a watch that has ended, or was ended by an error, is asked for anew: kopf itself asks at
once, and again and again."""


class FollowedCache(Cache, Protocol):
    """A cache that kopf fills."""

    def get(self, key: Key) -> Object | None:
        """The object as last seen."""


class Followed(NamedTuple):
    """A kind of object that kopf follows, and where it is kept."""

    resource: Resource
    kind: str
    cache: FollowedCache

    def knows(self, obj: Object) -> bool:
        """Whether the cache has the object as it is here, or newer."""
        try:
            meta = obj["metadata"]
            held = self.cache.get(Key(meta["namespace"], meta["name"], self.kind))
            same = held is not None and held["metadata"]["uid"] == meta["uid"]
            return same and held is not None and version_of(held) >= version_of(obj)
        except (KeyError, TypeError, ValueError):
            return False  # whoever gets it says what is wrong with it

    def changes(self, listed: Object, namespace: str | None) -> list[Object]:
        """What a list says that the cache does not know; of missing objects their metadata."""
        items: list[Object] = listed["items"] or []
        uids = {item["metadata"]["uid"] for item in items}
        version = int(listed["metadata"].get("resourceVersion") or 0)
        missing = [
            {"kind": MISSING, "metadata": dict(obj["metadata"])}
            for obj in self.cache.missing_from(uids, version)
            if namespace is None or obj["metadata"]["namespace"] == namespace
        ]
        return [*missing, *(item for item in items if not self.knows(item))]


class Follower(NamedTuple):
    """What responses to kopf have to know.

    Attributes:
        kinds: What kopf follows, by plural name.
        interrupted: Called with the path of a watch that the server ended with an error, and why.
    """

    kinds: Mapping[str, Followed]
    interrupted: Callable[[str, str], None]


class BoundedResponse(aiohttp.ClientResponse):
    """A response of the API server to kopf."""

    follower: ClassVar[Follower]

    async def start(self, connection: Any) -> "BoundedResponse":
        """See ClientResponse: called when the head has come and the body may be read."""
        await super().start(connection)
        self.content = BoundedLines(self.content, self)  # type: ignore[assignment]
        return self

    async def json(self, **_: Any) -> Any:
        """The body, decoded and bounded; of a list, what the cache does not know.

        Raises:
            aiohttp.ClientPayloadError: It is no JSON; whoever asked tries again.
        """
        try:
            body = await read(await self.read(), LIST)
        except ValueError as error:
            raise aiohttp.ClientPayloadError(f"the answer is no JSON: {error}") from None
        kind = self.follower.kinds.get(self.url.name)
        if kind is not None and isinstance(body, dict) and "items" in body:
            before, namespace = self.url.parts[-3:-1]
            body["items"] = kind.changes(body, namespace if before == "namespaces" else None)
        return body


def responses(follower: Follower) -> type[BoundedResponse]:
    """The class of responses for an HTTP session, which makes them itself."""

    class Response(BoundedResponse):
        pass

    Response.follower = follower
    return Response


class BoundedLines:
    """The body of a watch. All that is not said here is the stream's own."""

    def __init__(self, content: aiohttp.StreamReader, response: BoundedResponse) -> None:
        self._content = content
        self._response = response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """A line for each event of a watch, bounded.

        Raises:
            aiohttp.ClientPayloadError: The server ended the watch with an error.
        """
        kind = self._response.follower.kinds.get(self._response.url.name)
        try:
            async for event in events(self._content.iter_chunked(size)):
                obj = event["object"]
                if event["type"] == "ERROR" and obj.get("code") != _GONE:
                    await self._fail(str(obj.get("message") or obj))
                elif event["type"] in ("ADDED", "MODIFIED") and kind and kind.knows(obj):
                    version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                    event = {"type": "BOOKMARK", "object": {"metadata": version}}
                yield orjson.dumps(event) + b"\n"
        except aiohttp.ClientError:
            await asyncio.sleep(_END_SECONDS)
            raise
        await asyncio.sleep(_END_SECONDS)

    async def _fail(self, why: str) -> None:
        self._response.follower.interrupted(self._response.url.path, why)
        await asyncio.sleep(_ERROR_SECONDS)
        raise aiohttp.ClientPayloadError(why)


NO_FINALIZER = ""
"""No object can have it: the API server takes qualified names only. So kopf never removes one."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Every object looks as if it had never been seen, and as if nothing were worth comparing."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return an empty essence, without a deep copy of the object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return that nothing was seen before."""
        return None

    def store(self, **_: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """No handler of ours is called in several goes."""

    def fetch(self, **_: Any) -> None:
        """Return that no handler has begun."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""

    def purge(self, **_: Any) -> None:
        """There is nothing to purge."""

    def touch(self, **_: Any) -> None:
        """Change nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence, which has nothing of ours in it."""
        return essence
