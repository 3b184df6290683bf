"""An upgrade, a rollback, and an uninstallation that is taken back, with work under way.

`make test-chart`. The upgrade from the release before this one is in tests/upgrade.
"""

from collections.abc import Iterator

import pytest
from support.cluster import Object
from support.installation import ROOT, install
from support.upgrade_world import HELD, PATIENCE, Upgrade
from support.world import NAMESPACE, SYSTEM, World, echo_task

from orbiter_contracts.queues import BARE

pytestmark = [pytest.mark.apart, pytest.mark.timeout(1800)]

CHART = ROOT / "helm" / "orbiter"
USER = 901
HELD_TASKS = ("upgraded", "rolled-back", "while-away", "installed-again")
"""Tasks that are at work all the time, by when they end."""


@pytest.fixture(autouse=True)
def nothing_left_over() -> None:
    """Each test goes on with the work that was under way in the one before."""


@pytest.fixture(scope="module")
def up(world: World) -> Iterator[Upgrade]:
    """Work of each kind under way; the installation is there again behind it, whatever failed."""
    up = Upgrade(world)
    for name in HELD_TASKS:
        up.task(NAMESPACE, name, f'{HELD}\n[[result: {{"summary": "{name}"}}]]')
    up.task(NAMESPACE, "behind", '[[result: {"summary": "behind"}]]', dependsOn=["while-away"])
    for name in HELD_TASKS:
        up.wait(NAMESPACE, name, "Running")
    up.session(NAMESPACE, "talker", USER, idle=3)
    assert "remember" in up.ask(NAMESPACE, "talker", USER, "[[remember: the tea is green]]")
    yield up
    install()


@pytest.fixture(scope="module")
def pods(up: Upgrade) -> dict[str, str]:
    """The pod in which each of the tasks began."""
    return {name: up.world.status(name)["podName"] for name in HELD_TASKS}


def let_go(up: Upgrade, name: str) -> None:
    up.let_go(NAMESPACE, f"orbiter.dev/agenttask={name}")


def ends_where_it_began(up: Upgrade, name: str, pod: str) -> None:
    """It has ended well, in its first attempt and its first pod."""
    status = up.wait(NAMESPACE, name)
    assert (status["phase"], status["attempts"], status["podName"]) == ("Completed", 1, pod)
    assert status["result"]["summary"] == name
    told = [out for out in up.outputs(BARE) if out["request_id"] == status["requestId"]]
    assert len(told) == 1


def helm(world: World, *words: str) -> None:
    world.cluster.helm(*words, "--wait", "--timeout", f"{PATIENCE:.0f}s")


def operator_pods(world: World) -> set[str]:
    """Those that are not about to end."""
    label = "app.kubernetes.io/component=operator"
    found: list[Object] = world.cluster.list_all("pods", SYSTEM, label)
    living = (pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"])
    return {meta["uid"] for meta in living}


def test_an_upgrade_leaves_what_runs_alone(up: Upgrade, pods: dict[str, str]) -> None:
    world, before = up.world, operator_pods(up.world)
    change = ("--reuse-values", "--set", "operator.podAnnotations.upgraded=yes")
    helm(world, "upgrade", "orbiter", str(CHART), "-n", SYSTEM, *change)
    assert not before & operator_pods(world), "no operator was replaced"
    let_go(up, "upgraded")
    ends_where_it_began(up, "upgraded", pods["upgraded"])


def test_a_rollback_leaves_what_runs_alone(up: Upgrade, pods: dict[str, str]) -> None:
    world, before = up.world, operator_pods(up.world)
    helm(world, "rollback", "orbiter", "-n", SYSTEM)
    assert not before & operator_pods(world), "no operator was replaced"
    let_go(up, "rolled-back")
    ends_where_it_began(up, "rolled-back", pods["rolled-back"])


def test_what_ends_while_nothing_is_installed_is_told_when_it_is_again(
    up: Upgrade, pods: dict[str, str]
) -> None:
    world = up.world
    up.wait_session(NAMESPACE, "talker", lambda status: status.get("phase") == "Asleep")
    helm(world, "uninstall", "orbiter", "-n", SYSTEM)
    assert operator_pods(world) == set()
    let_go(up, "while-away")
    world.apply(echo_task("asked-while-away"))
    assert set(world.status("asked-while-away")) <= {"phase"}  # the API server's default
    install()
    ends_where_it_began(up, "while-away", pods["while-away"])
    for name in ("behind", "asked-while-away"):
        assert up.wait(NAMESPACE, name)["phase"] == "Completed"
    let_go(up, "installed-again")
    ends_where_it_began(up, "installed-again", pods["installed-again"])
    assert "the tea is green" in up.ask(NAMESPACE, "talker", USER, "[[recall]]")
