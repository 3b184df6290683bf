"""Where log records go and how they look: one way for every program of the cluster."""

import logging
import sys

import structlog


def configure_logs(level: str, *, as_json: bool) -> None:
    """Send every log record to stderr, ours and those of the libraries alike.

    Args:
        level: Least important level that is shown: debug, info, warning or error.
        as_json: One JSON object a line; else lines for people.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        # Methods of less important levels do nothing: no line is made to be thrown away.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
