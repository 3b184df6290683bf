"""Whether kopf's watches are followed right now, seen in the requests that kopf makes.

kopf tries again after every failure and tells nobody, so it is given a session whose requests are
looked at: a watch that was answered is followed until a later request for the same collection
fails, is refused, or stays without an answer. A stream that breaks is asked for anew at once.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace

import aiohttp
import structlog

log = structlog.get_logger(__name__)
PATIENCE_SECONDS = 10.0
"""How long a watch may stay without an answer."""
_REFUSED = 400


class WatchState:
    """What has become of the last request for each watched collection.

    Args:
        plurals: Names of the kinds that kopf follows.
        clock: Monotonic seconds.
    """

    def __init__(self, *plurals: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._plurals = plurals
        self._clock = clock
        self._asked: dict[str, float] = dict.fromkeys(plurals, clock())
        self._broken: set[str] = set()

    @property
    def in_step(self) -> bool:
        """Whether every watch is followed, or has been asked for a moment ago."""
        late = self._clock() - PATIENCE_SECONDS
        return not self._broken and all(asked >= late for asked in self._asked.values())

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
        if self._concerns(params) and path not in self._broken:
            self._asked.setdefault(path, self._clock())

    async def _end(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        if not self._concerns(params):
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
