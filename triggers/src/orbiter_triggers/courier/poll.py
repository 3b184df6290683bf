"""Every ten minutes: what has happened in each trigger's repository, whatever webhooks have told.

GitHub delivers an event once. What the receiver has missed is found here and goes the way that it
would have gone: into the stream of its tenant, under the same key. What has made its task already
is not told again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orbiter_operator.kube.leader_election import NotLeadingError
from orbiter_triggers.courier.answers import AnswerTooLargeError, GithubError
from orbiter_triggers.courier.cache import CourierCache
from orbiter_triggers.courier.client import Github
from orbiter_triggers.courier.credentials import NoCredentialError
from orbiter_triggers.courier.found import Finder
from orbiter_triggers.courier.lists import Listing, lists_of
from orbiter_triggers.courier.pages import Fresh, Pages
from orbiter_triggers.courier.poll_state import LOOKBACK, PollState, PollStates, Reached, Whole
from orbiter_triggers.courier.rate_limits import GithubBusyError
from orbiter_triggers.courier.targets import MaySee, Target, target_of
from orbiter_triggers.courier.teller import Teller
from orbiter_triggers.event_stream import StreamFullError

log = structlog.get_logger(__name__)
TICK_SECONDS: Final = 5.0
_SAVED_EVERY: Final = 20
_LATER_SECONDS: Final = 60.0


class Poll:
    """Polls for all triggers.

    Args:
        cache: The triggers.
        github: The API.
        redis: A client for short commands.
        may_see: Whether a namespace has a repository.
        allowed: Raises unless this replica is the active one.
        count: Called with what has become of each event and each poll.
        interval: Seconds between two polls of a trigger.
        clock: The time.
    """

    def __init__(
        self,
        *,
        cache: CourierCache,
        github: Github,
        redis: Redis,
        may_see: MaySee,
        allowed: Callable[[], None],
        count: Callable[[str], None],
        interval: float,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cache = cache
        self._github = github
        self._redis = redis
        self._states = PollStates(redis)
        self._may_see = may_see
        self._allowed = allowed
        self._count = count
        self._interval = timedelta(seconds=interval)
        self._clock = clock
        self._due: dict[str, datetime] = {}

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            await self.round()
            await asyncio.sleep(TICK_SECONDS)

    async def round(self) -> None:
        """Poll for each trigger whose time has come, through every failure."""
        triggers = self._cache.triggers
        targets = [
            found
            for key in triggers
            if (found := target_of(key, triggers.get(key), self._may_see)) is not None
        ]
        known = {target.uid for target in targets}
        self._due = {uid: at for uid, at in self._due.items() if uid in known}
        for target in targets:
            now = self._clock()
            if self._due.get(target.uid, now) > now:
                continue
            self._due[target.uid] = now + await self._polled(target)

    async def _polled(self, target: Target) -> timedelta:
        """Poll for one trigger; returns after which time to do it again."""
        try:
            return await self._poll(target)
        except GithubBusyError as error:
            self._count("later")
            log.info("poll put off", trigger=str(target.key), why=str(error))
            return timedelta(seconds=error.seconds)
        except StreamFullError:
            self._count("full")
            return timedelta(seconds=_LATER_SECONDS)
        except NoCredentialError as error:
            self._count("later")
            log.warning("no credential of GitHub's", why=str(error))
            return timedelta(seconds=_LATER_SECONDS)
        except (RedisError, OSError, NotLeadingError) as error:
            self._count("later")
            log.warning("poll interrupted", trigger=str(target.key), error=repr(error))
            return timedelta(seconds=TICK_SECONDS)
        except Exception:
            # What nobody has thought of is this trigger's affair and no other's.
            self._count("failed")
            log.exception("poll failed", trigger=str(target.key))
            return self._interval

    async def _poll(self, target: Target) -> timedelta:
        state, now = await self._states.read(target.key.namespace, target.uid), self._clock()
        whole = state.whole
        if whole is None or whole.repository != target.repository:
            begin = now if whole else max(target.created, now - LOOKBACK)
            whole = Whole(repository=target.repository, begin=begin)
        elif whole.suspended and not target.spec.suspend:
            # What passed meanwhile is not made up for.
            whole = Whole(repository=target.repository, begin=now)
        elif (since := now - whole.polled) < self._interval and not target.spec.suspend:
            return self._interval - since
        if not target.spec.suspend:
            await self._read_all(target, state, whole, now)
        done = {"suspended": target.spec.suspend, "polled": now}
        whole = whole.model_copy(update=done)
        await self._states.write(target.key.namespace, target.uid, whole, {})
        self._count("polled")
        # A suspension is to be noticed, and its end.
        return timedelta(seconds=TICK_SECONDS) if target.spec.suspend else self._interval

    async def _read_all(
        self, target: Target, state: PollState, whole: Whole, now: datetime
    ) -> None:
        finder = Finder(self._github, target.repository, target.spec)
        seconds = now.timestamp()
        teller = Teller(self._redis, target, seconds, self._allowed, self._count)
        for listing in lists_of(target.spec):
            known = state.reached(listing.name, whole.begin)
            pages = Pages(self._github, f"/repos/{target.repository}", listing)
            try:
                found = await pages.since(whole.begin, known)
            except (GithubError, AnswerTooLargeError) as error:
                # One list may be closed to us, or be none of this server's; the others are read.
                self._count("refused")
                text = str(error)
                log.warning("no list", repository=target.repository, list=listing.name, why=text)
                continue
            if found is None:
                continue
            async with self._kept(target, listing, whole, known) as progress:
                await self._take(listing, found, finder, teller, progress)

    async def _take(
        self,
        listing: Listing,
        found: Fresh,
        finder: Finder,
        teller: Teller,
        progress: "_Progress",
    ) -> None:
        for number, (moment, identity, item) in enumerate(found.items):
            try:
                for event in await finder.events(listing, item):
                    await teller.tell(event, f"{listing.name}-{identity}")
            except (GithubError, AnswerTooLargeError) as error:
                # It is gone, or nobody can read it: nothing can come of it.
                log.info("left out", list=listing.name, item=identity, why=str(error))
            progress.reached = progress.reached.with_item(moment, identity)
            if number % _SAVED_EVERY == _SAVED_EVERY - 1:
                await progress.save()
        progress.reached = progress.reached.model_copy(update={"etag": found.etag})

    @asynccontextmanager
    async def _kept(
        self, target: Target, listing: Listing, whole: Whole, known: Reached
    ) -> AsyncIterator["_Progress"]:
        progress = _Progress(self._states, target, listing.name, whole, known)
        try:
            yield progress
        finally:
            await progress.save()


class _Progress:
    """How far a list is read while it is."""

    def __init__(
        self, states: PollStates, target: Target, name: str, whole: Whole, reached: Reached
    ) -> None:
        self._states = states
        self._target = target
        self._name = name
        self._whole = whole
        self.reached = reached

    async def save(self) -> None:
        target = self._target
        await self._states.write(
            target.key.namespace, target.uid, self._whole, {self._name: self.reached}
        )
