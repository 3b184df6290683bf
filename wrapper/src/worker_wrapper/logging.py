"""Logs: one JSON object a line on stderr, with the worker's id and without secrets.

What is bound with `structlog.contextvars` (request_id, task) appears in every line of that turn.
"""

import logging
import sys

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from worker_wrapper.redact import Redactor

Log = FilteringBoundLogger


def configure(redactor: Redactor, *, level: str, worker_id: str) -> Log:
    """Set logging up for this process.

    Args:
        redactor: Takes secrets out of every line.
        level: debug, info, warning or error.
        worker_id: Stands in every line.

    Returns:
        The logger to pass on.
    """

    def scrub(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        return {key: redactor.scrub(value) for key, value in event.items()}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            scrub,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log: Log = structlog.get_logger().bind(worker_id=worker_id)
    return log
