"""Whether kopf's watches are followed right now, seen in the requests that kopf makes.

kopf tries again after every failure and tells nobody, so it is given a session whose requests are
looked at: a watch that was answered is followed until a later request for the same collection
fails, is refused, or stays without an answer. A stream that breaks is asked for anew at once.
"""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace

import aiohttp
import structlog

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
        self._looked: float | None = None
        self._found: set[str] = set()

    @property
    def in_step(self) -> bool:
        """Whether every watch is followed, or has been asked for a moment ago."""
        return not self.interrupted

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
            looked = self._looked is not None and self._looked < self._clock() - self._patience
            if looked and passed_over:
                raise NotFollowedError(
                    f"the API server did not name {', '.join(passed_over)} among its kinds"
                )

    def begin(self) -> None:
        """Forget what an earlier kopf has found."""
        self._looked = None
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
            if self._looked is None and params.response.status < _REFUSED:
                self._looked = self._clock()
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
