"""Whose request it is and what they may do, as far as the endpoints need to know."""

from dataclasses import dataclass

from starlette.requests import HTTPConnection

_SCOPE = "orbiter.server.viewer"
GROUP = "orbiter.dev"


@dataclass(frozen=True, slots=True)
class Right:
    """What a request needs, in the words of Kubernetes' RBAC.

    Attributes:
        verb: Such as "list".
        resource: Plural of a kind, with a part of it behind a slash, if that is meant; empty for a
            right to a path.
        namespace: Empty is all of them, None the one in which the server is.
        name: Of one object; empty for all.
        path: Of a right that is about no resource, such as "/metrics".
        group: Of the kind; empty is Kubernetes' own.
    """

    verb: str
    resource: str = ""
    namespace: str | None = ""
    name: str = ""
    path: str = ""
    group: str = GROUP


USE_AGENTS = Right("use", "agents", namespace=None)
"""To talk to the server's agents: they spend the owner's money."""
READ_METRICS = Right("get", path="/metrics")


class Viewer:
    """Whoever has the one shared token, or is a program of this machine: may and sees all."""

    user: str | None = None
    """Whose conversations and tasks are shown; None is everybody's."""
    token: str | None = None
    """What they present to act in the cluster; None only reads."""
    lapses = False
    """Whether a stream has to be ended when `lapsed` returns."""

    async def acts(self) -> bool:
        """Say whether their token is theirs at the API server too; see `token`."""
        return False

    async def may(self, right: Right) -> bool:
        """Say whether they have a right."""
        return True

    async def require(self, right: Right) -> None:
        """See that they have a right, and remember that this request needs it.

        Raises:
            RequestError: They do not, or nobody can say now.
        """

    async def lapsed(self) -> None:
        """Return when the request could no longer be made: at once where nothing lapses."""


def set_viewer(connection: HTTPConnection, viewer: Viewer) -> None:
    """Note whose request it is; the middleware does, before anything else sees it."""
    connection.scope[_SCOPE] = viewer


def viewer_of(connection: HTTPConnection) -> Viewer:
    """Return whose request it is."""
    viewer: Viewer = connection.scope[_SCOPE]
    return viewer
