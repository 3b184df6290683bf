"""kopf as the informer of POSessions: every event goes into the store, nothing is decided here.

kopf runs with its side effects off: no annotations or finalizers (only `on.event` handlers), no
peering, no scanning of the cluster, no log messages as Events. Its own retries never give up,
because an API server that is away is no reason to end. Start it last: when it ends, it cancels
every task of the event loop that was created after it. What becomes of its requests, `watch_state`
sees, and what it reads, `kopf_wire` bounds.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import kopf

from orbiter_operator.kube.cache import Cache
from orbiter_operator.kube.credentials import load_connection
from orbiter_operator.kube.informer import apply_event
from orbiter_operator.kube.kopf_wire import BoundedResponse
from orbiter_operator.kube.watch_state import WatchState
from orbiter_operator.kube.watch_storage import NO_FINALIZER, NoDiffBase, NoProgress

GROUP = "orbiter.dev"
VERSION = "v1alpha1"
_RETRY_SECONDS = 2.0
_SILENCE_SECONDS = 75.0
"""Bookmarks come once a minute: a watch that is silent for longer is dead."""
_LEVEL_OF_KOPF = logging.WARNING


async def run_kopf(
    caches: Mapping[str, Cache],
    namespaces: Sequence[str],
    take_signals: Callable[[], None],
    state: WatchState,
) -> None:
    """Follow kinds of our own until cancelled.

    Args:
        caches: The cache of each kind, by its plural name.
        namespaces: Which namespaces; empty for all.
        take_signals: Sets our signal handlers again after kopf has set its own.
        state: Told how kopf's requests fare.
    """
    ours = asyncio.all_tasks()
    logging.getLogger("kopf").setLevel(_LEVEL_OF_KOPF)
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="connection")(_Login(state).log_in)
    for plural, cache in caches.items():
        _feed(registry, plural, cache)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=_settings(),
        clusterwide=not namespaces,
        namespaces=namespaces,
        standalone=True,
    )
    take_signals()
    await kopf.run_tasks(tasks, ignored=ours)


def _feed(registry: kopf.OperatorRegistry, plural: str, cache: Cache) -> None:
    async def on_event(*, event: Any, **_: Any) -> None:
        apply_event(cache, event["type"], event["object"])

    kopf.on.event(GROUP, VERSION, plural, registry=registry, id=f"{plural}-event")(on_event)


class _Login:
    """Gives kopf a session whose requests are looked at; asked again when one was not let in."""

    def __init__(self, state: WatchState) -> None:
        self._state = state
        self._before = -_RETRY_SECONDS

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
            response_class=BoundedResponse,
            trace_configs=[self._state.trace()],
        )
        return kopf.AiohttpSession(
            server=info.server,
            priority=info.priority,
            default_namespace=info.default_namespace,
            expiration=info.expiration,
            aiohttp_session=session,
        )


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
    settings.queueing.idle_timeout = 1.0
    return settings
