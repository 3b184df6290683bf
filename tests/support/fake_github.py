"""GitHub's REST API in the test's own process: the lists and writes that the courier uses.

It pages, sorts by what was made last, answers ETags with 304, and knows who may write. A test
breaks it by `faults`: what the next requests are answered instead, before or after they were done.
"""

import asyncio
import hashlib
import json
import ssl
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from support import servers
from support.webhooks import REPOSITORY, SHA, person

Object = dict[str, Any]
Answer = Callable[[], web.StreamResponse]
TOKEN = "the-token-of-this-test"
APP_TOKEN = "a-token-of-an-hour"
ME = "orbiter-courier[bot]"


def limited(seconds: int = 30) -> web.Response:
    """The secondary limit, as GitHub says it."""
    said = {"message": "You have exceeded a secondary rate limit. Please wait."}
    return web.json_response(said, status=403, headers={"Retry-After": str(seconds)})


def broken() -> web.Response:
    return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")


class FakeGithub:
    """The server. Tests change it by `open_issue`, `label`, `comment`, `push` and their like.

    Args:
        host: The address that it listens at.
        certificate: Files of a certificate and of its key; None for plain HTTP.
        root: What all paths begin with, as GitHub Enterprise Server has `/api/v3`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        *,
        certificate: tuple[Path, Path] | None = None,
        root: str = "",
    ) -> None:
        self.host, self.certificate, self.root = host, certificate, root
        self.now = datetime(2026, 11, 30, 5, 30, tzinfo=UTC)
        self.issues: dict[int, Object] = {}
        self.pulls: dict[int, Object] = {}
        self.events: list[Object] = []
        self.comments: list[Object] = []
        self.review_comments: list[Object] = []
        self.activity: list[Object] = []
        self.files: dict[str, list[str]] = {}
        self.statuses: list[Object] = []
        self.permissions = {"mona": "write", "root": "admin", "reader": "read"}
        self.faults: deque[Answer | None] = deque()
        self.after: Callable[[str, str], web.StreamResponse | None] = lambda method, path: None
        self.instead: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.requests: Counter[str] = Counter()
        self.bearers: list[str] = []
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.headers: dict[str, str] = {"X-RateLimit-Remaining": "4999"}
        self.tokens = {TOKEN, APP_TOKEN}
        self.busy = self.most_at_once = 0
        self.port = 0
        self._ids = 1000
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{self.host}:{self.port}{self.root}"

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        secret = None
        if self.certificate:
            secret = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            secret.load_cert_chain(*self.certificate)
        where = self.host, self.port
        site = web.TCPSite(self._runner, *where, reuse_address=True, ssl_context=secret)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await servers.stop(self._runner)
            self._runner = None

    # What people do there.

    def open_issue(self, number: int, *, author: str = "mona", labels: tuple[str, ...] = (),
                   pull: Object | None = None, **more: Any) -> Object:  # fmt: skip
        made = {
            "id": self._id(),
            "number": number,
            "title": f"Issue {number}",
            "body": "It does not work.",
            "html_url": f"https://git.example.com/{REPOSITORY}/issues/{number}",
            "user": person(author),
            "labels": [{"name": one} for one in labels],
            "author_association": "MEMBER" if author in self.permissions else "NONE",
            "created_at": self._time(),
            **({"pull_request": {"url": "…"}} if pull is not None else {}),
            **more,
        }
        self.issues[number] = made
        return made

    def open_pull(self, number: int, *, branch: str, sha: str = SHA, **more: Any) -> Object:
        issue = self.open_issue(number, pull={}, **more)
        pull = {**issue, "state": "open", "head": {"ref": branch, "sha": sha}}
        pull["base"] = {"ref": "main"}
        self.pulls[number] = pull
        return pull

    def label(self, number: int, label: str, *, actor: str = "mona") -> Object:
        issue = self.issues[number]
        issue["labels"].append({"name": label})
        event = {"id": self._id(), "event": "labeled", "actor": person(actor)}
        made = {**event, "label": {"name": label}, "created_at": self._time(), "issue": issue}
        self.events.append(made)
        return made

    def comment(self, number: int, body: str, *, author: str = "mona", **more: Any) -> Object:
        made = {
            "id": self._id(),
            "body": body,
            "user": person(author, "Bot" if author.endswith("[bot]") else "User"),
            "author_association": "MEMBER" if author in self.permissions else "NONE",
            "issue_url": f"{self.url}/repos/{REPOSITORY}/issues/{number}",
            "html_url": f"https://git.example.com/{REPOSITORY}/issues/{number}#c",
            "performed_via_github_app": None,
            "created_at": self._time(),
            **more,
        }
        self.comments.append(made)
        return made

    def review_comment(self, number: int, body: str, *, author: str = "mona") -> Object:
        made = self.comment(number, body, author=author)
        self.comments.remove(made)
        made["pull_request_url"] = f"{self.url}/repos/{REPOSITORY}/pulls/{number}"
        self.review_comments.append(made)
        return made

    def push(self, branch: str, after: str, *files: str, actor: str = "mona") -> Object:
        self.files[after] = list(files)
        for pull in self.pulls.values():
            if pull["head"]["ref"] == branch:
                pull["head"]["sha"] = after
        made = {
            "id": self._id(),
            "before": "a" * 40,
            "after": after,
            "ref": f"refs/heads/{branch}",
            "timestamp": self._time(),
            "activity_type": "push",
            "actor": person(actor),
        }
        self.activity.append(made)
        return made

    def thread(self, number: int) -> list[Object]:
        """The comments of an issue."""
        return [one for one in self.comments if one["issue_url"].endswith(f"/issues/{number}")]

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    def _time(self) -> str:
        return f"{self.now:%Y-%m-%dT%H:%M:%SZ}"

    # What it answers.

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        try:
            return await (self.instead or self._answered)(request)
        finally:
            self.busy -= 1

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        path, method = request.path.removeprefix(self.root), request.method
        body = await request.json() if request.can_read_body else None
        self.requests[f"{method} {path}"] += 1
        self.asked.append((method, path, dict(request.query)))
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.bearers.append(bearer)
        fault = self.faults.popleft() if self.faults else None
        if fault is not None:
            return fault()
        if not path.startswith("/app") and bearer not in self.tokens:
            return web.json_response({"message": "Bad credentials"}, status=401)
        status, value = self._value(method, path, dict(request.query), body)
        instead = self.after(method, path)
        if instead is not None:
            return instead
        text = json.dumps(value)
        etag = f'W/"{hashlib.sha256(text.encode()).hexdigest()}"'
        headers = {"ETag": etag, **self.headers}
        if method == "GET" and request.headers.get("If-None-Match") == etag:
            self.requests["304"] += 1
            return web.Response(status=304, headers=headers)
        await asyncio.sleep(0)
        return web.Response(
            status=status, text=text, content_type="application/json", headers=headers
        )

    def _value(self, method: str, path: str, query: Object, body: Any) -> tuple[int, Any]:
        if path == "/app":
            return 200, {"slug": ME.removesuffix("[bot]")}
        if path.startswith("/app/installations/"):
            return 201, {"token": APP_TOKEN, "expires_at": "2026-11-30T07:00:00Z"}
        if path == "/user":
            return 200, {"login": ME}
        if path == f"/repos/{REPOSITORY}":
            return 200, {"default_branch": "main"}
        parts = path.removeprefix(f"/repos/{REPOSITORY}/").split("/")
        if parts[0] == "" or not path.startswith(f"/repos/{REPOSITORY}"):
            return 404, {"message": "Not Found"}
        found = self._list(parts, query)
        if method == "GET" and found is not None:
            size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
            return 200, found[(page - 1) * size : page * size]
        return self._one(method, parts, body, query)

    def _list(self, parts: list[str], query: Object) -> list[Object] | None:
        newest = {
            "issues": self.issues.values(),
            "issues/events": self.events,
            "issues/comments": self.comments,
            "pulls/comments": self.review_comments,
            "activity": self.activity,
        }
        if "/".join(parts) in newest:
            return list(reversed(list(newest["/".join(parts)])))
        if parts[0] == "issues" and parts[2:] == ["comments"]:
            since = query.get("since", "")
            return [one for one in self.thread(int(parts[1])) if one["created_at"] >= since]
        if parts == ["pulls"]:
            head = query.get("head", "").partition(":")[2]
            return [one for one in self.pulls.values() if one["head"]["ref"] == head]
        return None

    def _one(self, method: str, parts: list[str], body: Any, query: Object) -> tuple[int, Any]:
        missing = 404, {"message": "Not Found"}
        if method == "POST" and parts[0] == "issues" and parts[2:] == ["comments"]:
            if int(parts[1]) not in self.issues:
                return missing
            return 201, self.comment(int(parts[1]), body["body"], author=ME)
        if method == "PATCH" and parts[:2] == ["issues", "comments"]:
            for one in self.comments:
                if one["id"] == int(parts[2]):
                    one["body"] = body["body"]
                    return 200, one
            return missing
        if method == "POST" and parts == ["pulls"]:
            if any(one["head"]["ref"] == body["head"] for one in self.pulls.values()):
                why = f"A pull request already exists for octo-org:{body['head']}."
                return 422, {"message": "Validation Failed", "errors": [{"message": why}]}
            number = max([*self.issues, 100]) + 1
            made = self.open_pull(number, branch=body["head"], author=ME, body=body["body"])
            return 201, made
        if method == "POST" and parts[0] == "statuses":
            self.statuses.append({"sha": parts[1], **body})
            return 201, {}
        if parts[0] == "collaborators":
            if parts[1] == "suspended":
                return missing
            return 200, {"permission": self.permissions.get(parts[1], "none")}
        if parts[0] == "compare":
            sha = parts[1].rpartition("...")[2]
            files = [{"filename": one} for one in self.files.get(sha, [])]
            commit = {"sha": sha, "commit": {"message": "Fix\n\nlong"}}
            return 200, {"files": files, "commits": [commit], "html_url": "https://x.example/c"}
        if parts[0] == "commits":
            return 200, {"files": [], "commit": {"message": "Fix"}, "html_url": "https://x.example"}
        home = {"issues": self.issues, "pulls": self.pulls}.get(parts[0], {})
        if method == "GET" and len(parts) == 2 and int(parts[1]) in home:
            return 200, home[int(parts[1])]
        return missing
