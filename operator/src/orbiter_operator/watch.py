"""kopf as the informer of POSessions: every event goes into the store, nothing is decided here.

kopf runs with its side effects off: no annotations or finalizers (only `on.event` handlers), no
peering, no scanning of the cluster, no log messages as Events. Its own retries never give up,
because an API server that is away is no reason to end. Start it last: when it ends, it cancels
every task of the event loop that was created after it.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kopf

from orbiter_operator.children import Cache
from orbiter_operator.credentials import load_connection
from orbiter_operator.informer import apply_event

GROUP = "orbiter.dev"
VERSION = "v1alpha1"
_RETRY_SECONDS = 2.0
_LEVEL_OF_KOPF = logging.WARNING


async def run_kopf(
    caches: Mapping[str, Cache], namespaces: Sequence[str], take_signals: Callable[[], None]
) -> None:
    """Follow kinds of our own until cancelled.

    Args:
        caches: The cache of each kind, by its plural name.
        namespaces: Which namespaces; empty for all.
        take_signals: Sets our signal handlers again after kopf has set its own.
    """
    ours = asyncio.all_tasks()
    logging.getLogger("kopf").setLevel(_LEVEL_OF_KOPF)
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="connection")(_login)
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


def _login(**_: Any) -> kopf.ConnectionInfo:
    return load_connection()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.watching.server_timeout = 600
    settings.watching.reconnect_backoff = 0.1
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = itertools.repeat(_RETRY_SECONDS)
    settings.queueing.exit_timeout = 0.5
    settings.queueing.idle_timeout = 1.0
    return settings
