"""Entry point of the courier: `python -m orbiter_triggers.courier`.

Reading order from here: `app` runs the loops that are put together here, each in a file of its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orbiter_triggers.command import run_program
from orbiter_triggers.courier.settings import CourierSettings
from orbiter_triggers.replica import run_replica

if TYPE_CHECKING:
    from orbiter_operator.kube.client import Kube
    from orbiter_operator.kube.leader_election import Leader
    from orbiter_operator.runtime.health import Health
    from orbiter_operator.runtime.metrics import Metrics

_NAME = "orbiter-courier"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the courier; exits with 2 when the settings are wrong, 1 when it had to give up."""
    run_program(
        _NAME,
        "Finds what no webhook has told, and tells GitHub what has become of it.\nNeeds the CRDs, "
        "Redis, a way to the API server and a credential of GitHub's.",
        CourierSettings,
        _run,
        arguments,
    )


async def _run(settings: CourierSettings) -> int:
    async def lead(kube: "Kube", leader: "Leader", metrics: "Metrics", health: "Health") -> None:
        from orbiter_triggers.courier.loops import Loops

        async with Loops(settings, kube, leader, metrics, health) as loops:
            await loops.courier.run()

    return await run_replica(_NAME, settings, lead, logger="orbiter_triggers.courier")


if __name__ == "__main__":
    main()
