"""`orbiter serve`: agents over HTTP, with a web page."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbiter.cli.ui.options import AsJson, Model, TraceFile
from orbiter.cli.ui.outcome import UsageError, ends, usage

if TYPE_CHECKING:
    from orbiter.cli.agent.loading import LoadedAgent


class Auth(StrEnum):
    """Who decides who may."""

    TOKEN = "token"  # noqa: S105 - no secret
    KUBERNETES = "kubernetes"


@ends
def serve(
    agents: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]AGENT...", help="YAML files, or module:attr in Python."),
    ],
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="Port.", min=0, max=65535)] = 8000,
    directory: Annotated[
        str,
        typer.Option(
            "--directory", metavar="DIR", help="Where sessions, tasks and token are kept."
        ),
    ] = "orbiter-server",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            help="The cluster's namespaces to show on the page: one, a,b or * for all.",
        ),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", help="How the page reaches a cluster.")
    ] = None,
    auth: Annotated[
        Auth,
        typer.Option("--auth", help="Who may: one token for all, or each as the cluster says."),
    ] = Auth.TOKEN,
    audience: Annotated[
        str,
        typer.Option(
            "--audience",
            help="For whom a token of the cluster is made; '' is its API server.",
        ),
    ] = "orbiter-server",
    transcripts: Annotated[
        bool,
        typer.Option("--transcripts", help="Show what the cluster's agents say and do, too."),
    ] = False,
    tls_certificate: Annotated[
        str | None,
        typer.Option("--tls-certificate", metavar="FILE", help="Serve HTTPS with it, as PEM."),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")
    ] = None,
    model: Model = None,
    trace: TraceFile = None,
    as_json: AsJson = False,
) -> None:
    """Serve agents: REST, events, WebSocket, OpenAI-compatible chat, and a web page.

    Outside of this machine clients need a token: ORBITER_SERVER_TOKEN, else one that is made. With
    --auth kubernetes each presents a token of the cluster, and sees what its RBAC lets them.
    """
    from orbiter.cli.commands.run import tracing
    from orbiter.server import ServerConfig

    loaded = _loaded(agents, model)
    settings = {
        "directory": directory, "namespace": namespace, "kubeconfig": kubeconfig,
        "auth": auth.value, "audience": audience, "transcripts": transcripts,
        "tls_certificate": tls_certificate, "tls_key": tls_key,
    }  # fmt: skip
    config = ServerConfig.model_validate(
        {name: value for name, value in settings.items() if value is not None}
    )

    def on_listening(url: str) -> None:
        if as_json:
            from orbiter.cli.ui.terminal import print_json

            print_json({"url": url, "agents": list(loaded)})
        else:
            sys.stderr.write(f"serving {', '.join(loaded)} at {url}\n")

    with tracing(trace), usage():
        _serve(loaded, host, port, config, on_listening)


def _loaded(references: list[str], model: str | None) -> "dict[str, LoadedAgent]":
    from orbiter import Swarm
    from orbiter.cli.agent.loading import load_agent

    found: dict[str, LoadedAgent] = {}
    for reference in references:
        given, equals, rest = reference.partition("=")
        loaded = load_agent(rest if equals else reference, model=model)
        target = loaded.target
        own = target.name
        if isinstance(target, Swarm) and not own:
            own = "-".join(one.name for one in target.agents)
        name = given if equals else own
        if name in found:
            raise UsageError(
                f"two agents are named '{name}': give one a name, as other={reference}"
            )
        found[name] = loaded
    return found


def _serve(
    loaded: "dict[str, LoadedAgent]",
    host: str,
    port: int,
    config: Any,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until a signal comes.

    The MCP servers of the agents live as long as the application: they belong to its event loop.
    """
    from orbiter.server import serve as serve_agents
    from orbiter.server.app import create_app
    from orbiter.server.main import serve_app, with_token

    targets = {name: one.target for name, one in loaded.items()}
    if not any(one.servers for one in loaded.values()):
        serve_agents(targets, host=host, port=port, config=config, on_listening=on_listening)
        return
    import os

    app = create_app(targets, config=with_token(config, host, os.environ))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(started: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            for one in loaded.values():
                await stack.enter_async_context(one)
            yield await stack.enter_async_context(inner(started))

    app.router.lifespan_context = lifespan
    serve_app(app, host=host, port=port, on_listening=on_listening, tls=config.tls)
