"""kopf's face: AgentTasks and POSessions come in here, by one handler for each kind.

A handler fills the cache, which puts keys on the work queue; nothing is decided here. kopf runs
with its side effects off: no annotations or finalizers (only `on.event` handlers), no peering, no
scanning of the cluster, no log messages as Events. Its own retries never give up, because an API
server that is away is no reason to end. Start it last: when it ends, it cancels every task of the
event loop that was created after it. What becomes of its requests, `watch_state` sees, and what it
reads, `kopf_wire` bounds and thins out.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import aiohttp
import kopf

from orbiter_operator.kube.credentials import load_connection
from orbiter_operator.kube.informer import apply_event
from orbiter_operator.kube.kopf_wire import (
    MISSING,
    NO_FINALIZER,
    Followed,
    Follower,
    NoDiffBase,
    NoProgress,
    responses,
)
from orbiter_operator.kube.watch_state import WatchState

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
            headers=info.as_http_headers(),
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
