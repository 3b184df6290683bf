"""The tasks and sessions of a cluster, page by page, the newest first."""

import asyncio
import re
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbiter.server._internal.cluster_api import Kind, connected, in_reach
from orbiter.server._internal.cluster_detail import attempts_of, brief_of, is_over, transcript_of
from orbiter.server._internal.cluster_view import (
    EVERYWHERE,
    LIST_SECONDS,
    Followed,
    Key,
    wanted,
)
from orbiter.server._internal.errors import RequestError, unknown
from orbiter.server._internal.redis_access import SECRET, Access, access_of
from orbiter.server._internal.transcripts import Over, Place
from orbiter.server._internal.viewer import Right, Viewer
from orbiter.server._internal.waiting import MayAsk, TaskAsks
from orbiter.server.cluster_models import ClusterObject, ClusterPage, ClusterQuery
from orbiter.server.models import NAMESPACE

if TYPE_CHECKING:
    from orbiter.tasks.api_server import ApiServer

MOST_NAMESPACES = 200
"""How many of them one list asks about, where somebody may not list all at once."""
_LABEL = re.compile(NAMESPACE)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Cluster:
    """Shows AgentTasks and POSessions; connects when it is first asked."""

    def __init__(self, kubeconfig: Path | None, namespace: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._api: ApiServer | None = None
        self._own = ""
        self._followed: dict[Kind, list[Followed]] = {}
        self._connecting = asyncio.Lock()

    @classmethod
    def if_any(cls, kubeconfig: Path | None, namespace: str | None) -> "Cluster | None":
        """Return the cluster of the kubeconfig, else the one we are somebody in, else None."""
        return cls(kubeconfig, namespace) if in_reach(kubeconfig) else None

    async def page(self, kind: Kind, viewer: Viewer, query: ClusterQuery) -> ClusterPage:
        """Return a page of those objects that somebody may list, the newest first.

        Args:
            kind: Which objects.
            viewer: Who asks.
            query: How many at most, which, and behind which page. Objects that came or went since
                that page do not matter.

        Raises:
            RequestError: The cursor is none, the namespace is not theirs to list, or the API
                server did not answer as it should.
        """
        cursor = None if query.after is None else _key(query.after)
        return _page_of(await self.visible(kind, viewer, query.namespace), query, cursor)

    async def get(
        self, kind: Kind, viewer: Viewer, namespace: str, name: str
    ) -> tuple[ClusterObject, dict[str, Any]]:
        """Return an object in few words, and as the API server has it.

        Raises:
            RequestError: It is not theirs to get, or there is none.
        """
        await self._require(Right("get", kind, namespace, name), viewer)
        return await self._found(kind, namespace, name)

    async def transcript(
        self, kind: Kind, viewer: Viewer, namespace: str, name: str, attempt: int | None
    ) -> tuple[Place, Over]:
        """Return where a transcript is, and how to ask whether nothing more will come.

        Raises:
            RequestError: It is not theirs to read, or there is none.
        """
        await self._require(Right("get", f"{kind}/transcript", namespace, name), viewer)
        _, item = await self._found(kind, namespace, name)
        number = attempts_of(item) if attempt is None else attempt
        place = transcript_of(item, number)
        if place is None:
            raise unknown("transcript", f"of {kind.removesuffix('s')} {namespace}/{name}")

        async def over() -> bool:
            try:
                one = await self.following(kind, namespace)
            except RequestError:
                return False  # nobody can say now
            now = one and one.by_name.get((namespace, name))
            return not now or (kind == "agenttasks" and is_over(now, number))

        return place, over

    async def readers(self, namespace: str) -> Access:
        """Return how who reads the transcripts of a namespace reaches Redis.

        Raises:
            RequestError: The Secret is not there, or not ours to read.
        """
        await self._watched("agenttasks")
        assert self._api is not None  # noqa: S101 - it is connected
        try:
            data = await self._api.secret(namespace, SECRET, timeout=LIST_SECONDS)
        except Exception as error:
            words = getattr(error, "words", None) or str(error) or type(error).__name__
            raise RequestError(
                502, f"the Secret {SECRET} of namespace {namespace} cannot be read: {words}",
                code="no_transcripts",
            ) from error  # fmt: skip
        if data is None:
            raise RequestError(
                404, f"namespace {namespace} has no Secret {SECRET}: no worker runs there, or the "
                "operator makes no users of Redis (redis.users)", code="no_transcripts",
            )  # fmt: skip
        return access_of(data, namespace)

    async def _require(self, right: Right, viewer: Viewer) -> None:
        """See that they have a right to an object, whose names may be forged."""
        if not _LABEL.fullmatch(right.namespace or "") or not _NAME.fullmatch(right.name):
            kind = right.resource.partition("/")[0].removesuffix("s")
            raise unknown(kind, f"{right.namespace}/{right.name}")
        await viewer.require(right)

    async def following(self, kind: Kind, namespace: str) -> Followed | None:
        """Return what follows a namespace, listed by now; None where that is not shown."""
        for one in await self._watched(kind):
            if one.namespace in (namespace, EVERYWHERE):
                await one.objects()
                return one
        return None

    async def _found(
        self, kind: Kind, namespace: str, name: str
    ) -> tuple[ClusterObject, dict[str, Any]]:
        """Return an object that is shown, in few words and as the API server has it.

        Raises:
            RequestError: There is none, or the API server did not answer as it should.
        """
        if (followed := await self.following(kind, namespace)) is not None:
            for item in await followed.named(namespace, name):
                if item["metadata"]["name"] == name:
                    return followed.by_name.get((namespace, name)) or brief_of(item), item
        raise unknown(kind.removesuffix("s"), f"{namespace}/{name}")

    async def visible(
        self, kind: Kind, viewer: Viewer, namespace: str | None
    ) -> Mapping[Key, ClusterObject]:
        """Return the objects that somebody may list, of one namespace or of all.

        Raises:
            RequestError: They may not list this namespace's, there are too many namespaces to ask
                about, or the API server did not answer as it should.
        """
        if namespace is not None:
            await viewer.require(Right("list", kind, namespace))
            return await self._objects(kind, {namespace})
        if await viewer.may(Right("list", kind)):
            return await self._objects(kind, None)
        shown = {one.namespace for one in await self._watched(kind)}
        if EVERYWHERE in shown:
            shown = {key[1] for key in await self._objects(kind, None)}
        if len(shown) > MOST_NAMESPACES:
            raise RequestError(
                400, f"there are {kind} in more than {MOST_NAMESPACES} namespaces: name yours, as "
                "?namespace=NAME here, or as #/cluster/NAME on the page", param="namespace",
            )  # fmt: skip
        names = sorted(shown)
        answers = await asyncio.gather(*(viewer.may(Right("list", kind, name)) for name in names))
        theirs = {name for name, allowed in zip(names, answers, strict=True) if allowed}
        return await self._objects(kind, theirs)

    async def waiting(
        self, kind: Kind, viewer: Viewer, namespace: str | None
    ) -> list[TaskAsks | MayAsk]:
        """Return those that may wait for a person; see `visible`."""
        names = {key[1:] for key in await self.visible(kind, viewer, namespace)}
        watched = await self._watched(kind)
        known = {name: waits for one in watched for name, waits in one.waiting.items()}
        return [waits for name, waits in known.items() if name in names]

    async def _objects(
        self, kind: Kind, namespaces: set[str] | None
    ) -> Mapping[Key, ClusterObject]:
        """Return the objects of these namespaces as they are now, or those of all that are shown.

        Raises:
            RequestError: The API server did not list them.
        """
        watched = await self._watched(kind)
        if namespaces is not None:
            watched = [one for one in watched if one.namespace in {*namespaces, EVERYWHERE}]
        known: dict[Key, ClusterObject] = {}
        for objects in await asyncio.gather(*(one.objects() for one in watched)):
            known.update(objects)
        if namespaces is None:
            return known
        return {key: found for key, found in known.items() if key[1] in namespaces}

    async def close(self) -> None:
        """End what is followed and close the connections."""
        for watched in self._followed.values():
            for one in watched:
                await one.close()
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _watched(self, kind: Kind) -> list[Followed]:
        """Return what is followed of a kind: each namespace that is shown, or all in one."""
        async with self._connecting:
            if self._api is None:
                self._api, self._own = await connected(self._kubeconfig)
            if kind not in self._followed:
                names = (self._namespace or self._own).split(",")
                self._followed[kind] = [Followed(self._api, kind, name) for name in names]
            return self._followed[kind]


def _page_of(
    known: Mapping[Key, ClusterObject], query: ClusterQuery, cursor: Key | None
) -> ClusterPage:
    """The newest of those that are wanted, behind a cursor."""
    keys = sorted(key for key, found in known.items() if wanted(found, query))
    end = len(keys) if cursor is None else bisect_left(keys, cursor)
    chosen = keys[max(end - query.limit, 0) : end][::-1]
    return ClusterPage(
        items=[known[key] for key in chosen],
        total=len(keys),
        next="/".join(chosen[-1]) if end > query.limit else None,
        namespaces=sorted({key[1] for key in known})[:MOST_NAMESPACES],
    )


def _key(after: str) -> Key:
    parts = after.split("/")
    if len(parts) != 3:
        raise RequestError(400, f"'after' is no cursor: {after[:200]!r}", param="after")
    return parts[0], parts[1], parts[2]
