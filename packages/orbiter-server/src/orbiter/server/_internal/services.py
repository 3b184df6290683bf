"""All that endpoints need, in one place; made by create_app."""

from collections.abc import Mapping
from dataclasses import dataclass

from orbiter import Agent, Swarm
from orbiter.agent import Provider
from orbiter.server._internal.bodies import Bodies
from orbiter.server._internal.cluster import Cluster
from orbiter.server._internal.database import Database
from orbiter.server._internal.errors import RequestError
from orbiter.server._internal.journal import Journal
from orbiter.server._internal.metrics import Metrics
from orbiter.server._internal.reviews import Reviews
from orbiter.server._internal.runs import Runs
from orbiter.server._internal.sessions import Sessions
from orbiter.server._internal.sse import Streams
from orbiter.server._internal.transcripts import Transcripts
from orbiter.server.config import ServerConfig
from orbiter.tasks import TaskBroker


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one server."""

    agents: Mapping[str, Agent | Swarm]
    provider: Provider | None
    config: ServerConfig
    database: Database
    sessions: Sessions
    journal: Journal
    runs: Runs
    broker: TaskBroker
    metrics: Metrics
    streams: Streams
    bodies: Bodies
    cluster: Cluster | None
    transcripts: Transcripts | None
    reviews: Reviews | None


def cluster_of(services: Services) -> Cluster:
    """Return the cluster that the server shows.

    Raises:
        RequestError: It knows none.
    """
    if services.cluster is None:
        raise RequestError(
            404, "the server knows no cluster: run it in one or give it a kubeconfig",
            code="no_cluster",
        )  # fmt: skip
    return services.cluster
