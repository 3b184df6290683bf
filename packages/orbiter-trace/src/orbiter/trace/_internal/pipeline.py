"""From notes to exporters, in a thread of its own: the agent pays for an append to a queue."""

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from random import random
from typing import Any
from weakref import WeakMethod

from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from orbiter.trace._internal.convert import characters_of, readable
from orbiter.trace._internal.pieces import Settings
from orbiter.trace._internal.span import NoteSpan, ids
from orbiter.trace.config import TraceConfig

logger = logging.getLogger("orbiter.trace")
BATCH = 512
BATCH_CHARACTERS = 4_000_000
"""A large request is refused whole: a Collector takes 20 MiB, and a character is up to 4 bytes."""
SHUTDOWN_SECONDS = 5.0
"""How long the end of a program waits for a receiver that does not answer."""
UNNAMED = "unknown_service"


class Pipeline:
    """A bounded queue of ended spans and the thread that empties it.

    Attributes:
        settings: What spans tell.
        dropped: Spans lost because the queue was full, or the receiver silent until the end.
    """

    def __init__(self, config: TraceConfig, exporters: list[Any]) -> None:
        self.settings = Settings(config.capture_content, config.costs)
        self.dropped = 0
        self._ratio = config.sample_ratio
        self._exporters = exporters
        self._interval = config.export_interval
        self._limit = config.max_queue
        self._half = config.max_queue // 2
        self._resource = _resource(config.service_name)
        self._queue: deque[NoteSpan] = deque()
        self._closed = False
        self._busy: Any = None
        self._reported: list[Any] = []
        self._renew()
        atexit.register(self.shutdown)
        forked = WeakMethod(self._after_fork)
        os.register_at_fork(after_in_child=lambda: (method := forked()) and method())

    def _renew(self) -> None:
        self._thread: threading.Thread | None = None
        self._exporting = threading.Lock()
        self._starting = threading.Lock()
        self._wake = threading.Event()

    def _after_fork(self) -> None:
        # threads do not survive a fork, and the parent exports what was in the queue
        self._queue.clear()
        self._renew()
        ids.seed()

    def sample(self) -> bool:
        """Decide on a new trace."""
        return self._ratio >= 1.0 or random() < self._ratio  # noqa: S311

    def add(self, span: NoteSpan) -> None:
        """Take an ended span; never waits."""
        queue = self._queue
        waiting = len(queue)
        if waiting < self._limit:
            queue.append(span)
            if not waiting and self._thread is None:
                self._start()
            elif waiting == self._half:
                self._wake.set()
        else:
            self.dropped += 1

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._work, name="orbiter-trace", daemon=True
                )
                self._thread.start()

    def _work(self) -> None:
        told = False
        while not self._closed:
            self._wake.wait(self._interval)
            self._wake.clear()
            self.flush()
            if self.dropped and not told:
                logger.warning("spans are dropped: more than max_queue=%d wait", self._limit)
                told = True
        self.flush()

    def flush(self) -> None:
        """Export what has ended so far; returns when the exporters have it."""
        with self._exporting:
            for batch in self._batches():
                self._export(batch, self._exporters)

    def _batches(self) -> Iterator[list[ReadableSpan]]:
        """Take the queue apart into what exporters can send at once."""
        batch: list[ReadableSpan] = []
        characters = 0
        for note in iter(self._next, None):
            try:
                span = readable(note, self.settings, self._resource)
            except Exception:
                logger.exception("a span could not be made")
                continue
            size = characters_of(span)
            if batch and (len(batch) == BATCH or characters + size > BATCH_CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append(span)
            characters += size
        if batch:
            yield batch

    def _next(self) -> NoteSpan | None:
        # not only one thread takes spans when a program ends
        try:
            return self._queue.popleft()
        except IndexError:
            return None

    def _export(self, spans: list[ReadableSpan], exporters: list[Any]) -> None:
        # the exporters' own requests are not to be traced
        token = attach(set_value("suppress_instrumentation", True))
        try:
            for exporter in exporters:
                self._busy = exporter
                try:
                    if exporter.export(spans) is SpanExportResult.FAILURE:
                        self._tell_lost(exporter)
                except Exception:
                    logger.exception("%s lost %d spans", type(exporter).__name__, len(spans))
        finally:
            detach(token)

    def shutdown(self) -> None:
        """Export what is left and close the exporters; once.

        It waits SHUTDOWN_SECONDS for an exporter that hangs, then leaves that one behind.
        """
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            self.flush()
        else:
            thread.join(SHUTDOWN_SECONDS)
            if thread.is_alive():
                self._leave_behind(self._busy)
        atexit.unregister(self.shutdown)
        for exporter in self._exporters:
            exporter.shutdown()

    def _leave_behind(self, silent: Any) -> None:
        others = [exporter for exporter in self._exporters if exporter is not silent]
        lost = 0
        for batch in self._batches():
            self._export(batch, others)
            lost += len(batch)
        self.dropped += lost
        self._tell_lost(silent)

    def _tell_lost(self, exporter: Any) -> None:
        """Say once that an exporter loses spans, and where they should have gone."""
        if exporter in self._reported:
            return
        self._reported.append(exporter)
        endpoint = getattr(exporter, "_endpoint", None)
        if endpoint is None:
            logger.warning("%s did not answer: spans are lost to it", type(exporter).__name__)
            return
        logger.warning(
            "spans are lost: no Collector takes them at %s; start one there, or say where it is "
            "with OTEL_EXPORTER_OTLP_ENDPOINT",
            endpoint,
        )


def _resource(name: str | None) -> Resource:
    found = Resource.create({"service.name": name} if name else {})
    if str(found.attributes["service.name"]).startswith(UNNAMED):
        return found.merge(Resource({"service.name": "orbiter"}))
    return found
