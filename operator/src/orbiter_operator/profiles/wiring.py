"""What `app` builds of profiles, cache and informer and store, and what makes one unusable."""

from collections.abc import Callable, Sequence
from functools import partial

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.models import ProfileKind, Workspace
from orbiter_operator.kube.resources import AGENT_PROFILES, CLUSTER_AGENT_PROFILES
from orbiter_operator.pods.rules import fixed_error, image_error, pod_error, role_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.models import CLUSTER, NAMESPACED, ProfileSpec
from orbiter_operator.profiles.store import Profiles, profile_cache
from orbiter_operator.streams.users import RedisUsers


def profile_error(kind: ProfileKind, profile: ProfileSpec, defaults: WorkerDefaults) -> str | None:
    """Why no worker can be made of a profile, whatever its task says; None when one can.

    A namespace's profile may ask for no more than a task: who writes one gains nothing by it. The
    podTemplate of the cluster's may say what that of the installation may.
    """
    agent, template = profile.agent.alone(next(iter(defaults.images), "")), profile.pod_template
    if why := image_error(agent, defaults.images):
        return why
    if kind == NAMESPACED:
        why = role_error(agent, defaults.allowed_roles)
        return why or pod_error(agent, Workspace(), template or {}, defaults)
    why = fixed_error(template or {}, defaults)
    return why or pod_error(agent, Workspace(), {}, defaults, template)


def profiles_of(
    kube: Kube,
    defaults: WorkerDefaults,
    namespaces: Sequence[str],
    allowed: Callable[[], None],
    users: RedisUsers,
) -> tuple[Profiles, tuple[Informer, Informer]]:
    """The profiles of all tasks, and what keeps them up to date.

    Args:
        kube: The API client.
        defaults: What the installation says about every worker.
        namespaces: Which namespaces; empty for all.
        allowed: Raises unless this replica is the active one.
        users: Redis', whose master key seals what is kept.
    """

    def seal(text: str) -> tuple[str, ...]:
        if not users.managed:
            return ()
        return users.derived(text), users.derived(text, previous=True)

    def changed(namespace: str) -> None:
        for wake in waking:
            wake(namespace)

    waking: list[Callable[[str], None]] = []
    judge = partial(profile_error, defaults=defaults)
    cache = profile_cache(judge, changed)
    cluster = profile_cache(judge, changed, CLUSTER)
    informers = (
        Informer(kube, AGENT_PROFILES, cache, namespaces=namespaces),
        Informer(kube, CLUSTER_AGENT_PROFILES, cluster, namespaces=()),
    )
    return Profiles(kube, cache, cluster, judge, allowed, seal, waking), informers
