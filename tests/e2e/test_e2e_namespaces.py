"""A label makes a namespace one of the workers', and takes it away again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.installation import DOORS, credentials
from support.world import SYSTEM, World, busy, echo_task, task

CHART = Path(__file__).resolve().parents[2] / "helm" / "orbiter"
NAME = "e2e-labelled"
LABEL = "orbiter.dev/e2e"
SECRETS = {"orbiter-developer", "orbiter-chat", "orbiter-producer", "orbiter-transcript"}
ACCOUNT = POLICY = "orbiter-worker"


@pytest.fixture(scope="module")
def selecting(world: World) -> Iterator[str]:
    """An installation that looks for the label, and a namespace without it."""
    values = {
        "watchNamespaces": [],
        "workers.namespaceSelector": {"matchLabels": {LABEL: "yes"}},
        f"networkPolicy.egressByNamespace.{NAME}": DOORS["default"],
    }
    flags = (
        word
        for name, value in values.items()
        for word in ("--set-json", f"{name}={json.dumps(value)}")
    )
    timeout = ("--wait", "--timeout", "120s")
    words = ("upgrade", "orbiter", str(CHART), "-n", SYSTEM, "--reuse-values")
    world.cluster.helm(*words, *flags, *timeout)
    try:
        with world.cluster.namespace(NAME):
            credentials(world, NAME)
            yield NAME
    finally:
        world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *timeout)
    # Who was still at work when the selector went is not let in by it for ever.
    world.until("no policy beside Redis' own", lambda: not let_in(world))


def label(world: World, value: str) -> None:
    world.kubectl("label", "namespace", NAME, f"{LABEL}{value}", "--overwrite")


def has(world: World, kind: str, *names: str) -> bool:
    return all(world.cluster.find(kind, name, NAME) for name in names)


def let_in(world: World) -> bool:
    """Whether workers of former tenants are let into Redis."""
    return bool(world.cluster.find("networkpolicy", "orbiter-redis-former-tenants", SYSTEM))


def test_what_a_team_deletes_of_it_is_there_again(world: World, selecting: str) -> None:
    label(world, "=yes")
    world.until("its Secrets", lambda: has(world, "secret", *SECRETS))
    for kind, name in (
        ("networkpolicy", POLICY),
        ("serviceaccount", ACCOUNT),
        ("secret", "orbiter-chat"),
    ):
        world.kubectl("-n", NAME, "delete", kind, name)
        world.until(f"{kind} again", lambda k=kind, n=name: has(world, k, n), seconds=30)
    world.until("its Secrets", lambda: has(world, "secret", *SECRETS), seconds=30)
    label(world, "-")
    world.until("no policy", lambda: not has(world, "networkpolicy", POLICY))


def test_nothing_begins_without_the_label_and_what_runs_ends_when_it_goes(
    world: World, selecting: str
) -> None:
    assert not has(world, "serviceaccount", ACCOUNT)
    label(world, "=yes")
    world.until("its Secrets", lambda: has(world, "secret", *SECRETS))
    assert has(world, "networkpolicy", POLICY)
    world.apply(echo_task("early", namespace=NAME))
    world.wait("early", "Completed", namespace=NAME)

    prompt = f"[[bash: timeout 20 {busy(71)}; true]]\n[[result]]"
    world.apply(task("under-way", prompt, namespace=NAME))
    world.wait("under-way", "Running", namespace=NAME)
    label(world, "-")
    world.until("no ServiceAccount", lambda: not has(world, "serviceaccount", ACCOUNT))
    assert has(world, "networkpolicy", POLICY)
    with world.redis() as redis:  # Redis' own policy no longer knows the namespace
        assert redis.client_kill_filter(user=f"w:{NAME}") > 0
    world.apply(echo_task("late", namespace=NAME))
    assert world.wait("under-way", namespace=NAME)["phase"] == "Completed"
    world.until("no policy", lambda: not has(world, "networkpolicy", POLICY))
    world.until("no Secret", lambda: not any(has(world, "secret", name) for name in SECRETS))
    assert not let_in(world)
    status = world.wait("late", "Pending", namespace=NAME, reason="NamespaceNotServed")
    assert f"{LABEL}=yes" in status["message"]
    assert world.jobs("late", NAME) == []

    label(world, "=yes")
    world.wait("late", "Completed", namespace=NAME)
