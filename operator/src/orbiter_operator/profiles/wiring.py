"""What `app` builds of profiles, cache and informer and store, and what makes one unusable."""

from collections.abc import Callable, Sequence
from functools import partial

from orbiter_operator.kube.client import Kube
from orbiter_operator.kube.informer import Informer
from orbiter_operator.kube.models import Workspace
from orbiter_operator.kube.resources import AGENT_PROFILES
from orbiter_operator.pods.rules import image_error, pod_error
from orbiter_operator.pods.template import WorkerDefaults
from orbiter_operator.profiles.models import ProfileSpec
from orbiter_operator.profiles.store import Profiles, profile_cache


def profile_error(profile: ProfileSpec, defaults: WorkerDefaults) -> str | None:
    """Why no worker can be made of a profile, whatever its task says; None when one can.

    A profile may ask for no more than a task: who writes one gains nothing by it.
    """
    agent = profile.agent.alone(next(iter(defaults.images), ""))
    why = image_error(agent, defaults.images)
    return why or pod_error(agent, Workspace(), profile.pod_template or {}, defaults)


def profiles_of(
    kube: Kube,
    defaults: WorkerDefaults,
    namespaces: Sequence[str],
    changed: Callable[[str], None],
    allowed: Callable[[], None],
) -> tuple[Profiles, Informer]:
    """The profiles of all tasks, and what keeps them up to date.

    Args:
        kube: The API client.
        defaults: What the installation says about every worker.
        namespaces: Which namespaces; empty for all.
        changed: Called with the namespace of each profile that is new, other, or gone.
        allowed: Raises unless this replica is the active one.
    """
    judge = partial(profile_error, defaults=defaults)
    cache = profile_cache(judge, changed)
    informer = Informer(kube, AGENT_PROFILES, cache, namespaces=namespaces)
    return Profiles(kube, cache, judge, allowed), informer
