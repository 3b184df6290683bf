"""A Redis-compatible server inside this process: a queue for one task and nobody else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def local_redis() -> Iterator[str]:
    """Start a server on a free port of this machine; yields its URL, and stops it afterwards.

    Raises:
        ModuleNotFoundError: fakeredis is not installed.
    """
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.RequestHandlerClass = _handler(server.RequestHandlerClass)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    finally:
        server._shutdown_event.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _handler(base: Any) -> Any:
    """The package's handler, but an error is an answer: there it would end the connection."""
    from redis.exceptions import ResponseError

    class Handler(base):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            read = self.current_client.read_response

            def answer(*args: Any, **kwargs: Any) -> Any:
                try:
                    return read(*args, **kwargs)
                except ResponseError as error:
                    return error

            self.current_client.read_response = answer

    return Handler
