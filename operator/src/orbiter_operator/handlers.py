"""kopf's face: AgentTasks and POSessions come in here, by one handler for each kind.

A handler fills the cache, which puts keys on the work queue; nothing is decided here. kopf runs
with its side effects off: no annotations or finalizers (only `on.event` handlers), no peering, no
scanning of the cluster, no log messages as Events. Its own retries never give up, because an API
server that is away is no reason to end. Start it last: when it ends, it cancels every task of the
event loop that was created after it. What it reads, `kopf_codec` bounds and thins out.

kopf tries again after every failure and tells nobody, so `WatchState` looks at its requests: a
watch that was answered is followed until a later request for the same collection fails, is
refused, or stays without an answer. A stream that breaks is asked for anew at once.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
import structlog

from orbiter_operator.kube.client import USER_AGENT
from orbiter_operator.kube.connection import load_connection
from orbiter_operator.kube.informer import apply_event
from orbiter_operator.kube.kopf_codec import (
    MISSING,
    NO_FINALIZER,
    Followed,
    Follower,
    NoDiffBase,
    NoProgress,
    responses,
)

log = structlog.get_logger(__name__)
PATIENCE_SECONDS = 10.0
"""How long a watch may stay without an answer."""
_REFUSED = 400


class NotFollowedError(Exception):
    """kopf looks for its kinds once, when it begins; what it does not find it never follows."""


class WatchState:
    """What has become of the last request for each watched collection.

    Args:
        plurals: Names of the kinds that kopf follows.
        clock: Monotonic seconds.
        patience: Seconds that a watch may stay without an answer.
    """

    def __init__(
        self,
        *plurals: str,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._plurals = plurals
        self._clock = clock
        self._asked: dict[str, float] = dict.fromkeys(plurals, clock())
        self._broken: set[str] = set()
        self._patience = patience
        self._discovered_at: float | None = None
        self._found: set[str] = set()

    @property
    def interrupted(self) -> list[str]:
        """Names of the kinds of which a watch is not followed, in the order they were given."""
        late = self._clock() - self._patience
        paths = self._broken | {path for path, asked in self._asked.items() if asked < late}
        broken = {path.rpartition("/")[2] for path in paths}
        return [plural for plural in self._plurals if plural in broken]

    async def all_found(self) -> None:
        """Wait for ever, unless kopf has looked for its kinds and passed one over.

        Raises:
            NotFollowedError: It has; it has to begin anew.
        """
        while True:
            await asyncio.sleep(self._patience)
            passed_over = [plural for plural in self._plurals if plural not in self._found]
            at = self._discovered_at
            discovered = at is not None and at < self._clock() - self._patience
            if discovered and passed_over:
                raise NotFollowedError(
                    f"the API server did not name {', '.join(passed_over)} among its kinds"
                )

    def begin(self) -> None:
        """Forget what an earlier kopf has found."""
        self._discovered_at = None
        self._found.clear()

    def interrupted_by_server(self, path: str, why: str) -> None:
        """The server has ended a watch with an error."""
        self._breaks(path, why)

    def trace(self) -> aiohttp.TraceConfig:
        """What tells an HTTP session's requests to this object."""
        config = aiohttp.TraceConfig()
        config.on_request_start.append(self._start)
        config.on_request_end.append(self._end)
        config.on_request_exception.append(self._exception)
        return config

    async def _start(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        path = params.url.path
        if not self._concerns(params):
            return
        self._found.add(params.url.name)
        if path not in self._broken:
            self._asked.setdefault(path, self._clock())

    async def _end(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if not self._concerns(params):
            if self._discovered_at is None and params.response.status < _REFUSED:
                self._discovered_at = self._clock()
            return
        if params.response.status >= _REFUSED:
            self._breaks(params.url.path, f"status {params.response.status}")
        elif "watch" in params.url.query:
            self._answered(params.url.path)

    async def _exception(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestExceptionParams,
    ) -> None:
        if self._concerns(params):
            self._breaks(params.url.path, repr(params.exception))

    def _concerns(
        self,
        params: aiohttp.TraceRequestStartParams
        | aiohttp.TraceRequestEndParams
        | aiohttp.TraceRequestExceptionParams,
    ) -> bool:
        return params.method == "GET" and params.url.name in self._plurals

    def _answered(self, path: str) -> None:
        self._asked.pop(path, None)
        self._asked.pop(path.rpartition("/")[2], None)
        if path in self._broken:
            self._broken.discard(path)
            log.info("watch follows again", path=path)

    def _breaks(self, path: str, why: str) -> None:
        if path not in self._broken:
            self._broken.add(path)
            log.warning("watch interrupted", path=path, error=why)


GROUP = "orbiter.dev"
VERSION = "v1alpha1"
_RETRY_SECONDS = 2.0
_SILENCE_SECONDS = 75.0
"""Bookmarks come once a minute: a watch that is silent for longer is dead."""
_IDLE_SECONDS = 0.02
"""Not 0: with that kopf spins instead of reading."""
_LEVEL_OF_KOPF = logging.WARNING


async def run_kopf(
    kinds: Collection[Followed],
    namespaces: Sequence[str],
    take_signals: Callable[[], None],
    state: WatchState,
) -> None:
    """Follow kinds of our own until cancelled.

    Args:
        kinds: The kinds and their caches.
        namespaces: Which namespaces; empty for all.
        take_signals: Sets our signal handlers again after kopf has set its own.
        state: Told how kopf's requests fare.

    Raises:
        NotFollowedError: kopf did not find one of the kinds when it began.
    """
    ours = asyncio.all_tasks()
    state.begin()
    logging.getLogger("kopf").setLevel(_LEVEL_OF_KOPF)
    registry = kopf.OperatorRegistry()
    login = _Login(kinds, state)
    kopf.on.login(registry=registry, id="connection")(login.log_in)
    for kind in kinds:
        _feed(registry, kind)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(),
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
    )
    take_signals()
    found = asyncio.create_task(state.all_found(), name="kinds found")
    try:
        await kopf.run_tasks([*tasks, found], ignored=ours)
    finally:
        await login.close()


def _feed(registry: kopf.OperatorRegistry, kind: Followed) -> None:
    plural = kind.resource.plural

    @kopf.on.event(GROUP, VERSION, plural, registry=registry, id=f"{plural}-event")
    async def on_event(*, event: Any, **_: Any) -> None:
        missing = event["object"].get("kind") == MISSING
        apply_event(kind.cache, "DELETED" if missing else event["type"], event["object"])


class _Login:
    """Gives kopf a session whose requests are looked at; asked again when one was not let in."""

    def __init__(self, kinds: Collection[Followed], state: WatchState) -> None:
        self._state = state
        by_plural = {kind.resource.plural: kind for kind in kinds}
        self._response = responses(Follower(by_plural, state.interrupted_by_server))
        self._before = -_RETRY_SECONDS
        self._sessions: list[aiohttp.ClientSession] = []

    async def log_in(self, **_: Any) -> kopf.AiohttpSession:
        """Make a session with the present credentials."""
        now = asyncio.get_running_loop().time()
        # A token that is refused is not presented again and again without a pause.
        await asyncio.sleep(max(self._before + _RETRY_SECONDS - now, 0))
        self._before = asyncio.get_running_loop().time()
        info = load_connection()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers={**info.as_http_headers(), "User-Agent": USER_AGENT},
            proxy=info.proxy_url,
            trust_env=info.trust_env,
            response_class=self._response,
            trace_configs=[self._state.trace()],
        )
        self._sessions = [one for one in self._sessions if not one.closed] + [session]
        return kopf.AiohttpSession(
            server=info.server,
            priority=info.priority,
            default_namespace=info.default_namespace,
            expiration=info.expiration,
            aiohttp_session=session,
        )

    async def close(self) -> None:
        """Close what kopf leaves open when it is cancelled."""
        for session in self._sessions:
            await session.close()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.finalizer = NO_FINALIZER
    settings.watching.server_timeout = 600
    settings.watching.reconnect_backoff = 0.1
    settings.watching.inactivity_timeout = _SILENCE_SECONDS
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = itertools.repeat(_RETRY_SECONDS)
    settings.queueing.exit_timeout = 0.5
    # What follows soon is an echo, which does not come so far: nobody waits for it.
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings
