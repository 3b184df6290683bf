"""`serve`: the application behind uvicorn, with a token and an orderly end."""

import asyncio
import logging
import os
import secrets
import signal
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette

from orbiter import Agent, Swarm
from orbiter.access import is_loopback
from orbiter.agent import Provider
from orbiter.listening import listen, outside_of_a_loop, url_of
from orbiter.server._internal.arrivals import bounds
from orbiter.server._internal.directory import owned
from orbiter.server._internal.given import check_given
from orbiter.server._internal.runs import Runs
from orbiter.server.app import create_app
from orbiter.server.config import ServerConfig
from orbiter.types import OrbiterError

TOKEN_VARIABLE = "ORBITER_SERVER_TOKEN"  # noqa: S105 - the name of one
logger = logging.getLogger("orbiter.server")


def serve(
    agents: Mapping[str, Agent | Swarm],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    config: ServerConfig | None = None,
    provider: Provider | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve agents until SIGTERM or SIGINT.

    Outside of loopback there is always a token: the configuration's, else that of the environment
    variable ORBITER_SERVER_TOKEN, else a new one in the file `token` of the server's directory.
    With the configuration's `auth="kubernetes"` there is none, there or here: each client has its
    own, of the cluster.

    On SIGTERM nothing new begins and /readyz says so; runs have `drain_seconds` to end, and those
    that do not are gone on with by the next server. A second signal ends it at once.

    Args:
        agents: What is served, by the name clients know it by.
        host: Address to listen at.
        port: 0 takes any that is free.
        config: How to serve.
        provider: A model to use instead of the agents' own.
        on_listening: Called with the server's URL as soon as it takes connections.

    Raises:
        OrbiterError: The configuration does not work, the port is in use, another server uses the
            directory, or an event loop runs in this thread.
    """
    check_given(agents, config)
    outside_of_a_loop("serve", "create_app(...)")
    config = with_token(config or ServerConfig(), host, os.environ)
    app = create_app(agents, config=config, provider=provider)
    serve_app(app, host=host, port=port, on_listening=on_listening, tls=config.tls)


def serve_app(
    app: Starlette,
    *,
    host: str,
    port: int,
    on_listening: Callable[[str], None] | None = None,
    tls: tuple[Path, Path] | None = None,
) -> None:
    """Serve what `create_app` made until SIGTERM or SIGINT; see `serve`.

    Args:
        app: It is as it will be served: nothing is added, no token either.
        host: Address to listen at.
        port: 0 takes any that is free.
        on_listening: Called with the server's URL as soon as it takes connections.
        tls: Files with the certificate and its key, for HTTPS.

    Raises:
        OrbiterError: The port is in use, another server uses the directory, or the certificate and
            the key cannot be used.
    """
    if tls is not None:
        _check_pair(*tls)
    # asked now, for a sentence: once it starts it is a traceback in uvicorn's log
    with owned(app.state.directory):
        pass
    opened = listen(host, port)
    if on_listening is not None:
        url = url_of(host, opened)
        on_listening(url if tls is None else url.replace("http", "https", 1))
    certificate, key = tls or (None, None)
    options = uvicorn.Config(
        app, host=host, port=port, log_level="info", access_log=False, server_header=False,
        timeout_graceful_shutdown=1, lifespan="on", ssl_certfile=certificate, ssl_keyfile=key,
        **bounds(app.state.bodies.most),
    )  # fmt: skip
    Server(options, app.state.runs).run(sockets=[opened])


def _check_pair(certificate: Path, key: Path) -> None:
    """Refuse files that are no certificate and its key, for a sentence instead of a traceback."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:
        raise OrbiterError(
            f"HTTPS cannot be served with the certificate {certificate} and the key {key}:"
            f" {error.strerror or error}; name a PEM file with each"
        ) from error


def with_token(config: ServerConfig, host: str, environ: Mapping[str, str]) -> ServerConfig:
    """Return the configuration with the token that `host` needs.

    Args:
        config: As the user gave it.
        host: Where the server will listen.
        environ: The environment's variables.

    Raises:
        OrbiterError: No token can be written down.
    """
    if config.auth == "kubernetes":
        return config
    if config.token is not None:
        token = config.token.get_secret_value()
    elif environ.get(TOKEN_VARIABLE):
        token = environ[TOKEN_VARIABLE]
    elif is_loopback(host):
        return config
    else:
        token = _generated(config.directory / "token")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise OrbiterError(
            "a token has printable ASCII characters only, no spaces, and is not empty"
        )
    return config.model_copy(update={"token": SecretStr(token)})


def _generated(file: Path) -> str:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "w") as out:
                out.write(secrets.token_urlsafe(32))
        token = file.read_text().strip()
    except OSError as error:
        raise OrbiterError(
            f"no token can be kept in {file}: {error}; set {TOKEN_VARIABLE} instead"
        ) from error
    # the place, never the token: logs travel
    logger.warning("clients need the token in the file %s", file)
    return token


class Server(uvicorn.Server):
    """uvicorn, which stops only after the runs have ended."""

    def __init__(self, config: uvicorn.Config, runs: Runs) -> None:
        super().__init__(config)
        self._runs = runs
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Start; see uvicorn."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)  # type: ignore[arg-type]

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: the first lets runs end, the second ends it at once."""
        if self._draining is not None or self._loop is None or sig == signal.SIGINT:
            super().handle_exit(sig, frame)
            return
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        if self._draining is None:
            self._draining = asyncio.create_task(self._stop_after_runs())

    async def _stop_after_runs(self) -> None:
        await self._runs.drain()
        await self._runs.stop()
        self.should_exit = True
