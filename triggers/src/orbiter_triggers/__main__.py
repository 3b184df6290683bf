"""Entry point: the command line, the settings, signals and exit codes; then a replica's life.

Reading order from here: `controller/app`, then the way of a trigger: `controller/cache` sees it,
`controller/reconcile` observes, decides (`controller/plan`, `schedule`) and acts (`template`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orbiter_triggers.command import run_program
from orbiter_triggers.replica import run_replica
from orbiter_triggers.settings import Settings

if TYPE_CHECKING:
    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.runtime.health import Health
    from orbiter_operator.runtime.metrics import Metrics

_NAME = "orbiter-triggers"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the controller; exits with 2 when the settings are wrong, 1 when it had to give up."""
    run_program(
        _NAME,
        "Makes the AgentTasks of AgentTriggers.\nNeeds the CRDs and a way to the API server: "
        "the pod's\nservice account, or the current context of KUBECONFIG.",
        Settings,
        _run,
        arguments,
    )


async def _run(settings: Settings) -> int:
    async def lead(kube: "Kube", leader: "Leader", metrics: "Metrics", health: "Health") -> None:
        from orbiter_operator.streams.client import blocking_client, redis_client
        from orbiter_triggers.controller.app import Triggers, Webhooks

        webhooks = None
        if settings.redis_url and settings.webhook_master_key:
            webhooks = Webhooks(
                redis_client(settings.redis_url),
                blocking_client(settings.redis_url),
                settings.webhook_master_key,
                settings.webhook_generation,
                settings.webhook_url,
            )
        triggers = Triggers(
            namespaces=settings.watch_namespaces,
            resync_seconds=settings.resync_seconds,
            kube=kube,
            leader=leader,
            metrics=metrics,
            health=health,
            webhooks=webhooks,
        )
        await triggers.run()

    return await run_replica(_NAME, settings, lead, logger="orbiter_triggers")


if __name__ == "__main__":
    main()
