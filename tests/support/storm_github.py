"""A GitHub on which a storm happens: it plays a script, tells its webhooks once, and fails.

As the real one it does not send again what was not taken in. A bot answers each of our comments
with the very word that starts a task, and both comments are told of.
"""

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from support import github_shapes as shapes
from support.fake_github import ME, FakeGithub, Object, broken, limited
from support.trigger_storm import COMMENTS, EVENTS_OF, LABELS, PULLS, Step, Wanted

from orbiter_contracts.webhook_signatures import signed_body

_HOOK_SECONDS = 10.0
"""So long GitHub waits for an answer."""
_AT_ONCE = 8
_ANSWERS = "/agent Thank you, I have seen this."


class Hook(NamedTuple):
    """Where a webhook goes, and what it is signed with."""

    url: str
    secret: str


class Faults(NamedTuple):
    """How often something goes wrong, of one request to the API.

    Attributes:
        broken: It is answered with 502, and nothing was done.
        lost: It was done, and the answer is 502.
        limited: 403 with Retry-After.
        unsaid: 403 of the secondary limit, without: the client has to wait a minute.
    """

    broken: float = 0.015
    lost: float = 0.05
    limited: float = 0.01
    unsaid: float = 0.0


class StormGithub(FakeGithub):
    """The server.

    Args:
        seed: What its faults follow from.
        faults: How often it fails.
        **where: As `FakeGithub` has them.
    """

    def __init__(self, seed: int, faults: Faults, **where: Any) -> None:
        super().__init__(**where)
        self.hooks: Mapping[str, Hook] = {}
        self.counts: Counter[str] = Counter()
        self.wanted: dict[tuple[str, str], Wanted] = {}
        self._rates = faults
        self._chance = random.Random(seed)
        self._deliveries: set[asyncio.Task[None]] = set()
        self._limited_until = 0.0
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None
        self.after = self._lost

    async def start(self) -> None:
        await super().start()
        timeout = aiohttp.ClientTimeout(total=_HOOK_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)

    async def stop(self) -> None:
        await self.delivered()
        if self._session is not None:
            await self._session.close()
        await super().stop()

    async def play(self, steps: Sequence[Step], pause: float) -> None:
        """Have all of it happen, so many seconds one after the other."""
        for step in steps:
            self._happen(step)
            await asyncio.sleep(pause)

    async def delivered(self) -> None:
        """Wait until nothing is on its way to a webhook."""
        while self._deliveries:
            await asyncio.gather(*self._deliveries)

    def state(self) -> Object:
        """What a judge has to know, as JSON."""
        ours = [one for one in self.comments if one["user"]["login"] == ME]
        return {
            "wanted": [list(one) for one in self.wanted.values()],
            "counts": dict(self.counts),
            "comments": [
                {"number": int(one["issue_url"].rpartition("/")[2]), "body": one["body"]}
                for one in ours
            ],
        }

    # What happens.

    def _happen(self, step: Step) -> None:
        self.counts["happened"] += 1
        if step.kind == "comment":
            made = self.comment(step.number, step.text, author=step.author)
            self._tell_comment(made, step.number, step.deliveries)
            self._want(step, f"comment:issue_comment:{made['id']}")
        elif step.kind == "pull":
            self._open_pull(step)
            self._want(step, f"number:{step.number}")
        else:
            opener = step.opener if step.kind == "label" else step.author
            self.open_issue(step.number, author=opener, **shapes.issue(step.number, opener))
            self._tell_issue("opened", step.number, opener, 1)
        if step.kind == "label":
            event = self.label(step.number, step.text, actor=step.author)
            event["label"] = given = shapes.label(step.text)
            event["actor"] = shapes.user(step.author)
            self.issues[step.number]["labels"][-1:] = [given]
            self._tell_issue("labeled", step.number, step.author, step.deliveries, label=given)
            self._want(step, f"number:{step.number}")

    def _want(self, step: Step, key: str) -> None:
        if step.trigger:
            made = Wanted(step.trigger, key, step.number, step.deliveries, 0)
            accepted = self.wanted.get((step.trigger, key), made).accepted
            self.wanted[step.trigger, key] = made._replace(accepted=accepted)

    def _open_pull(self, step: Step) -> None:
        number, author = step.number, step.author
        branch, sha = f"change-{number}", f"{number:040x}"
        who = shapes.user(author, "Bot" if author.endswith("[bot]") else "User")
        opened = self.open_pull(
            number, branch=branch, sha=sha, author=author, **shapes.issue(number, author)
        )
        opened.update(shapes.pull(number, author, branch, sha) | {"user": who})
        self.issues[number]["user"] = who
        body = shapes.payload("opened", who, number=number, pull_request=opened)
        self._tell(PULLS, f"number:{number}", body, step.deliveries)

    def comment(self, number: int, body: str, *, author: str = "mona", **more: Any) -> Object:
        """A comment; a bot answers those of ours."""
        who = shapes.user(author, "Bot" if author.endswith("[bot]") else "User")
        made = super().comment(number, body, author=author, **more)
        made.update(shapes.comment(made["id"], number, who))
        if author == ME:
            made["performed_via_github_app"] = shapes.app(ME.removesuffix("[bot]"))
            self._tell_comment(made, number, 1)
            answer = self.comment(number, _ANSWERS, author="helper[bot]")
            self._tell_comment(answer, number, self._chance.choice((0, 1, 2)))
        return made

    # What webhooks are told.

    def _tell_issue(self, action: str, number: int, sender: str, times: int, **more: Any) -> None:
        subject = {"issue": self.issues[number], **more}
        body = shapes.payload(action, shapes.user(sender), **subject)
        self._tell(LABELS, f"number:{number}" if action == "labeled" else "", body, times)

    def _tell_comment(self, made: Object, number: int, times: int) -> None:
        subject = {"issue": self.issues[number], "comment": made}
        body = shapes.payload("created", made["user"], **subject)
        self._tell(COMMENTS, f"comment:issue_comment:{made['id']}", body, times)

    def _tell(self, trigger: str, key: str, body: Object, times: int) -> None:
        raw, identifier = json.dumps(deepcopy(body)).encode(), str(uuid.uuid4())
        for time_ in range(times):
            pause = time_ * self._chance.uniform(0.0, 3.0)
            made = self._deliver(trigger, key, raw, identifier, pause)
            task = asyncio.create_task(made)
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    async def _deliver(
        self, trigger: str, key: str, raw: bytes, identifier: str, pause: float
    ) -> None:
        """Once: whoever is not there has missed it."""
        await asyncio.sleep(pause)
        assert self._session is not None
        hook = self.hooks[trigger]
        headers = {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/044aadd",
            "X-GitHub-Delivery": identifier,
            "X-GitHub-Event": EVENTS_OF[trigger],
            "X-GitHub-Hook-ID": str(1 + sorted(self.hooks).index(trigger)),
            "X-GitHub-Hook-Installation-Target-Type": "repository",
            "X-Hub-Signature-256": signed_body(hook.secret, raw),
        }
        status = 0
        async with self._few:
            with suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with self._session.post(hook.url, data=raw, headers=headers) as response:
                    status = response.status
        self.counts["deliveries"] += 1
        self.counts["deliveries taken" if status == 202 else "deliveries lost"] += 1
        known = self.wanted.get((trigger, key))
        if status == 202 and known is not None:
            self.wanted[trigger, key] = known._replace(accepted=known.accepted + 1)

    # What goes wrong.

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.counts["requests"] += 1
        if time.monotonic() < self._limited_until:
            self.counts["asked while limited"] += 1
        drawn, rates = self._chance.random(), self._rates
        for name, rate, answer, seconds in (
            ("502", rates.broken, broken, 0),
            ("403 with Retry-After", rates.limited, lambda: limited(1), 1),
            ("403 without", rates.unsaid, unsaid, 60),
        ):
            drawn -= rate
            if drawn < 0:
                self.counts[f"answered {name}"] += 1
                self._limited_until = max(self._limited_until, time.monotonic() + seconds)
                self.faults.append(answer)
                break
        return await super()._handle(request)

    def _lost(self, method: str, path: str) -> web.StreamResponse | None:
        if method == "GET":
            return None
        self.counts["written"] += 1
        if self._chance.random() >= self._rates.lost:
            return None
        self.counts["answers lost"] += 1
        return broken()

    def _time(self) -> str:
        return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def unsaid() -> web.Response:
    """The secondary limit, where GitHub does not say for how long."""
    said = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}
    return web.json_response(said, status=403)
