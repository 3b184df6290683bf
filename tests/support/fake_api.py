"""A small API server in the test's own process: enough of Kubernetes to run the whole operator.

It keeps objects with resourceVersions, lists and watches them with label selectors, answers 404,
409 and 410 like the real one, patches status and deletes with owners. It knows no schemas and runs
no controllers; `fake_node` plays Job controller, garbage collector and kubelet. Tests break it
through `before` and `after`, which see every request before it is carried out and before it is
answered. `encode` says how objects are written, for what JSON of this process cannot say, and
`reviews` answers what is only asked and not kept (`fake_reviews`).
"""

import asyncio
import json
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from support import servers

Object = dict[str, Any]
Place = tuple[str, str]
Hook = Callable[[str, str, Object | None], Awaitable[None]]
"""Called with verb, plural and the request's body, which names its object."""

_KINDS = {
    "agenttasks": ("orbiter.dev/v1alpha1", "AgentTask"),
    "posessions": ("orbiter.dev/v1alpha1", "POSession"),
    "agentprofiles": ("orbiter.dev/v1alpha1", "AgentProfile"),
    "clusteragentprofiles": ("orbiter.dev/v1alpha1", "ClusterAgentProfile"),
    "agentbudgets": ("orbiter.dev/v1alpha1", "AgentBudget"),
    "agenttriggers": ("orbiter.dev/v1alpha1", "AgentTrigger"),
    "controllerrevisions": ("apps/v1", "ControllerRevision"),
    "jobs": ("batch/v1", "Job"),
    "deployments": ("apps/v1", "Deployment"),
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "roles": ("rbac.authorization.k8s.io/v1", "Role"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "namespaces": ("v1", "Namespace"),
    "serviceaccounts": ("v1", "ServiceAccount"),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy"),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
}


_OF_THE_CLUSTER = ("namespaces", "customresourcedefinitions", "clusteragentprofiles")


class RefusedRequestError(Exception):
    """What a hook raises to make the server refuse the request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


async def _nothing(verb: str, plural: str, body: Object | None) -> None:
    return None


class FakeApi:
    """The server. `objects[plural]` is its truth; change it with `put`, `patch` and `remove`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Place, Object]] = defaultdict(dict)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.bearers: list[tuple[str, str, str]] = []
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self.history: list[tuple[int, str, str, Object]] = []
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self.listeners: list[Callable[[str, str, Object], None]] = []
        self.crds = True
        self.reviews: dict[str, Callable[[Object], Object]] = {}
        self.encode: Callable[[Any], bytes] = _encode
        self.port = 0
        self._version = 100
        self._oldest = 0
        self._changed: set[asyncio.Event] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def writes(self) -> int:
        """Requests that changed something, Leases left out."""
        return sum(
            count
            for (verb, plural), count in self.requests.items()
            if verb in ("create", "patch", "update", "delete") and plural != "leases"
        )

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig that leads here."""
        path = directory / "kubeconfig"
        config = {
            "current-context": "fake",
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": {"token": "fake"}}],
        }
        path.write_text(json.dumps(config))
        return path

    async def start(self) -> None:
        """Serve, on the same port as before if there was one."""
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop answering; the objects stay."""
        if self._runner is not None:
            for event in list(self._changed):
                event.set()
            await servers.stop(self._runner)
            self._runner = None

    def forget_history(self) -> None:
        """Watches from before now get 410 Gone, and those that run are ended."""
        self._version += 1
        self._oldest = self._version
        self.history.clear()
        for event in self._changed:
            event.set()

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        return self.objects[plural].get((namespace, name))

    def put(self, plural: str, obj: Object) -> Object:
        """Create an object, or replace one."""
        meta = obj["metadata"]
        place = (meta.get("namespace", ""), meta["name"])
        known = place in self.objects[plural]
        meta.setdefault("uid", str(uuid4()))
        meta.setdefault("creationTimestamp", _now())
        meta.setdefault("generation", 1)
        self._store("MODIFIED" if known else "ADDED", plural, place, obj)
        return obj

    def patch(self, plural: str, namespace: str, name: str, changes: Object) -> Object | None:
        """Merge-patch an object; None when there is none."""
        old = self.get(plural, namespace, name)
        if old is None:
            return None
        new = merge_patch(old, changes)
        if new == old:
            return old
        # What a watch has yet to send must not change under it.
        new["metadata"] = dict(new["metadata"])
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        self._store("MODIFIED", plural, (namespace, name), new)
        return new

    def remove(self, plural: str, namespace: str, name: str) -> Object | None:
        """Delete an object for good."""
        obj = self.objects[plural].pop((namespace, name), None)
        if obj is not None:
            self._version += 1
            gone = {**obj, "metadata": obj["metadata"] | {"resourceVersion": str(self._version)}}
            self._tell("DELETED", plural, gone)
        return obj

    def _store(self, change: str, plural: str, place: Place, obj: Object) -> None:
        self._version += 1
        stored = json.loads(json.dumps(obj))
        stored["metadata"]["resourceVersion"] = str(self._version)
        api_version, kind = _KINDS[plural]
        stored |= {"apiVersion": api_version, "kind": kind}
        self.objects[plural][place] = stored
        self._tell(change, plural, stored)
        obj["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]

    def _tell(self, change: str, plural: str, obj: Object) -> None:
        self.history.append((self._version, change, plural, obj))
        for event in self._changed:
            event.set()
        for listener in list(self.listeners):
            listener(change, plural, obj)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/").split("/")
        if request.method == "GET" and (found := self._discovery(path)) is not None:
            return web.json_response(found)
        plural, namespace, name, sub = _parse(path)
        if plural in self.reviews:
            return await self._review(plural, await request.json())
        if plural not in _KINDS or (plural in ("agenttasks", "posessions") and not self.crds):
            return _status(404, "NotFound", "the server could not find the requested resource")
        body = await request.json() if request.can_read_body else None
        if isinstance(body, list):
            body = _as_merge_patch(self.get(plural, namespace, name) or {}, body)
        if body is not None and request.method == "PATCH":
            body.setdefault("metadata", {})["name"] = name  # for the hooks; it changes nothing
        if request.method == "GET" and "watch" in request.query:
            try:
                await self.before("watch", plural, None)
            except RefusedRequestError as refused:
                return _status(refused.status, refused.reason, str(refused))
            return await self._watch(request, plural, namespace)
        verb = _verb(request.method, name)
        self.requests[verb, plural] += 1
        self.bearers.append((verb, plural, request.headers.get("Authorization", "")))
        self.asked.append((verb, dict(request.query), request.headers.get("User-Agent", "")))
        try:
            await self.before(verb, plural, body)
            response = self._carry_out(request, plural, namespace, name, sub, body)
            await self.after(verb, plural, body)
        except RefusedRequestError as refused:
            return _status(refused.status, refused.reason, str(refused))
        return response

    async def _review(self, plural: str, body: Object) -> web.Response:
        """Answer a question about which nothing is kept."""
        self.requests["create", plural] += 1
        try:
            await self.before("create", plural, body)
            return web.json_response(self.reviews[plural](body), status=201)
        except RefusedRequestError as refused:
            return _status(refused.status, refused.reason, str(refused))

    def _carry_out(
        self,
        request: web.Request,
        plural: str,
        namespace: str,
        name: str,
        sub: str,
        body: Object | None,
    ) -> web.Response:
        old = self.get(plural, namespace, name) if name else None
        match request.method:
            case "GET" if not name:
                return self._list(plural, namespace, request.query)
            case "POST":
                assert body is not None
                if prefix := body["metadata"].pop("generateName", None):
                    body["metadata"]["name"] = f"{prefix}{self._version:05}"
                if (namespace, body["metadata"]["name"]) in self.objects[plural]:
                    return _status(409, "AlreadyExists", f"{plural} already exists")
                body["metadata"]["namespace"] = namespace
                self.put(plural, body)
                return self._answer(self.get(plural, namespace, body["metadata"]["name"]))
        if request.content_type == "application/apply-patch+yaml":
            assert body is not None
            return self._apply(plural, namespace, name, body)
        if old is None:
            return _status(404, "NotFound", f'{plural} "{name}" not found')
        match request.method:
            case "GET":
                return self._answer(old)
            case "PUT" | "PATCH":
                assert body is not None
                wanted = (body.get("metadata") or {}).get("resourceVersion")
                if wanted and wanted != old["metadata"]["resourceVersion"]:
                    return _status(409, "Conflict", "the object has been modified")
                body.get("metadata", {}).pop("resourceVersion", None)
                if request.method == "PUT":
                    body["metadata"] = old["metadata"] | body["metadata"]
                    self.put(plural, body)
                elif sub == "status":
                    self.patch(plural, namespace, name, {"status": body.get("status")})
                else:
                    self.patch(plural, namespace, name, body)
                return self._answer(self.get(plural, namespace, name))
            case "DELETE":
                uid = ((body or {}).get("preconditions") or {}).get("uid")
                if uid and uid != old["metadata"]["uid"]:
                    return _status(409, "Conflict", "the uid does not match")
                self.remove(plural, namespace, name)
                return web.json_response({"kind": "Status", "status": "Success"})
        return _status(405, "MethodNotAllowed", request.method)

    def _apply(self, plural: str, namespace: str, name: str, body: Object) -> web.Response:
        """Server-side apply by one manager, who owns every field there is."""
        if "data" in body or "stringData" in body:
            texts = body.pop("stringData", {})
            encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
            body["data"] = (body.get("data") or {}) | encoded
        if self.get(plural, namespace, name) is None:
            body["metadata"]["namespace"] = namespace
            self.put(plural, body)
        else:
            self.patch(plural, namespace, name, body)
        return self._answer(self.get(plural, namespace, name))

    def _list(self, plural: str, namespace: str, query: Mapping[str, str]) -> web.Response:
        """A page of what is there now; its version is that of the first page, as it should be."""
        selector, limit = query.get("labelSelector", ""), int(query.get("limit") or 0)
        begun, _, offset = query.get("continue", f"{self._version}:0").partition(":")
        if int(begun) < self._oldest:
            return _status(410, "Expired", "the provided continue parameter is too old")
        items = [
            obj
            for (place, _), obj in self.objects[plural].items()
            if namespace in ("", place) and _selected(obj, selector)
        ]
        api_version, kind = _KINDS[plural]
        end = int(offset) + limit if limit else len(items)
        meta = {"resourceVersion": begun}
        if end < len(items):
            meta["continue"] = f"{begun}:{end}"
        return self._answer(
            {
                "apiVersion": api_version,
                "kind": f"{kind}List",
                "metadata": meta,
                "items": items[int(offset) : end],
            }
        )

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        selector = request.query.get("labelSelector", "")
        response = web.StreamResponse()
        await response.prepare(request)
        wake = asyncio.Event()
        self._changed.add(wake)
        try:
            while self._runner is not None:
                if since < self._oldest:
                    gone = {
                        "code": 410,
                        "reason": "Expired",
                        "message": "too old",
                        "kind": "Status",
                    }
                    await response.write(self._line("ERROR", gone))
                    break
                wake.clear()
                position = _first_after(self.history, since)
                for version, change, kind, obj in self.history[position:]:
                    since = version
                    place = obj["metadata"].get("namespace", "")
                    if kind == plural and namespace in ("", place):
                        # What has lost the label is gone for who asks by it.
                        told = change if _selected(obj, selector) else "DELETED"
                        if told == change or change == "MODIFIED":
                            await response.write(self._line(told, obj))
                await wake.wait()
        except (ConnectionResetError, asyncio.CancelledError):
            pass
        finally:
            self._changed.discard(wake)
        return response

    def _answer(self, body: Object | None) -> web.Response:
        return web.Response(body=self.encode(body), content_type="application/json")

    def _line(self, change: str, obj: Object) -> bytes:
        return self.encode({"type": change, "object": obj}) + b"\n"

    def _discovery(self, path: list[str]) -> Object | None:
        groups = ["orbiter.dev/v1alpha1", "apiextensions.k8s.io/v1"]
        match path:
            case ["api"]:
                return {"versions": ["v1"]}
            case ["apis"]:
                versions = [{"groupVersion": item, "version": item[-8:]} for item in groups]
                for item in versions:
                    item["version"] = item["groupVersion"].partition("/")[2]
                return {
                    "groups": [
                        {
                            "name": item["groupVersion"].partition("/")[0],
                            "versions": [item],
                            "preferredVersion": item,
                        }
                        for item in versions
                    ]
                }
            case ["api", "v1"]:
                return _resources("v1")
            case ["apis", group, version]:
                return _resources(f"{group}/{version}")
        return None


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """An API server for one test. A conftest.py that imports it gives it to its tests."""
    made = FakeApi()
    await made.start()
    yield made
    await made.stop()


def merge_patch(old: Any, changes: Any) -> Any:
    """RFC 7396."""
    if not isinstance(changes, dict):
        return changes
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _as_merge_patch(old: Object, operations: list[Object]) -> Object:
    """A JSON patch (RFC 6902) that adds to objects or at the end of lists, in the other form."""
    new = json.loads(json.dumps(old))
    for operation in operations:
        assert operation["op"] == "add", operation
        *parents, last = operation["path"].strip("/").split("/")
        place = new
        for part in parents:
            place = place[part]
        if last == "-":
            place.append(operation["value"])
        else:
            place[last] = operation["value"]
    return {key: value for key, value in new.items() if key not in ("metadata", "status")}


def _resources(group_version: str) -> Object:
    return {
        "resources": [
            {
                "name": plural,
                "singularName": kind.lower(),
                "kind": kind,
                "namespaced": plural not in _OF_THE_CLUSTER,
                "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
            }
            for plural, (version, kind) in _KINDS.items()
            if version == group_version
        ]
    }


def _parse(path: list[str]) -> tuple[str, str, str, str]:
    rest = path[2:] if path[0] == "api" else path[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = [*rest, "", "", ""][:3]
    return plural, namespace, name, sub


def _verb(method: str, name: str) -> str:
    if method == "GET":
        return "get" if name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]


def _selected(obj: Object, selector: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    wanted = (term.partition("=") for term in selector.split(",") if term)
    return all(labels.get(key) == value if sign else key in labels for key, sign, value in wanted)


def _first_after(history: list[tuple[int, str, str, Object]], version: int) -> int:
    position = len(history)
    while position and history[position - 1][0] > version:
        position -= 1
    return position


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": code}
    return web.json_response(body | {"reason": reason, "message": message}, status=code)


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
