"""The kinds of objects that the operator reads and writes, by the API server's paths."""

from typing import NamedTuple


class Resource(NamedTuple):
    """A kind of object: the path of its group and version, and its plural name."""

    prefix: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """The URL path of a collection or, with `name`, of one object."""
        scope = f"/namespaces/{namespace}" if namespace else ""
        tail = f"/{name}" if name else ""
        return f"{self.prefix}{scope}/{self.plural}{tail}{'/' + sub if sub else ''}"


AGENT_TASKS = Resource("/apis/orbiter.dev/v1alpha1", "agenttasks")
PO_SESSIONS = Resource("/apis/orbiter.dev/v1alpha1", "posessions")
AGENT_PROFILES = Resource("/apis/orbiter.dev/v1alpha1", "agentprofiles")
CLUSTER_AGENT_PROFILES = Resource("/apis/orbiter.dev/v1alpha1", "clusteragentprofiles")
AGENT_BUDGETS = Resource("/apis/orbiter.dev/v1alpha1", "agentbudgets")
AGENT_TRIGGERS = Resource("/apis/orbiter.dev/v1alpha1", "agenttriggers")
REVISIONS = Resource("/apis/apps/v1", "controllerrevisions")
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
JOBS = Resource("/apis/batch/v1", "jobs")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events")
NAMESPACES = Resource("/api/v1", "namespaces")
SERVICE_ACCOUNTS = Resource("/api/v1", "serviceaccounts")
NETWORK_POLICIES = Resource("/apis/networking.k8s.io/v1", "networkpolicies")
SECRETS = Resource("/api/v1", "secrets")
CONFIG_MAPS = Resource("/api/v1", "configmaps")
ROLES = Resource("/apis/rbac.authorization.k8s.io/v1", "roles")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases")
