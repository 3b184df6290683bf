"""Who has answered and who has cancelled: the API server takes nobody's name but the user's own."""

import json

from support.cluster import CommandError
from support.manifests import agent_task
from support.world import NAMESPACE, World

ALICE = "alice@example.com"


def as_alice(world: World, change: object, name: str) -> str:
    """Patch a task as somebody else than the administrator; what the API server says against it."""
    words = ("-n", NAMESPACE, "--as", ALICE, "--as-group", "system:masters", "patch", "at", name)
    try:
        world.kubectl(*words, "--type=merge", "-p", json.dumps({"spec": change}))
    except CommandError as error:
        return str(error)
    return ""


def idle(world: World, name: str) -> str:
    """A task that nobody runs."""
    task = agent_task(name, managedBy="example.com/nobody")
    world.cluster.apply(task, namespace=NAMESPACE)
    return name


def answer(identity: str, by: str | None) -> dict[str, str]:
    return {"id": identity, "text": "yes"} | ({"by": by} if by else {})


def test_an_answer_and_a_cancellation_have_their_own_writers_name_or_none(
    world: World,
) -> None:
    name = idle(world, "audited")
    mine, unsaid = answer("q-1", ALICE), answer("q-2", None)
    forged = answer("q-3", "bob@example.com")
    assert as_alice(world, {"input": [mine, unsaid]}, name) == ""
    refused = as_alice(world, {"input": [mine, unsaid, forged]}, name)
    assert f"spec.input[q-3].by is 'bob@example.com', and you are '{ALICE}'" in refused
    # Somebody else may change the rest.
    world.cluster.patch("agenttask", name, {"spec": {"priority": 3}}, NAMESPACE)
    cancel = {"desiredState": "Cancelled"}
    refused = as_alice(world, cancel | {"cancelledBy": "bob@example.com"}, name)
    assert f"spec.cancelledBy is 'bob@example.com', and you are '{ALICE}'" in refused
    assert as_alice(world, cancel | {"cancelledBy": ALICE}, name) == ""
    late = as_alice(world, {"cancelledBy": None}, name)
    assert "who did it cannot be changed" in late


def test_a_name_without_a_cancellation_says_nothing(world: World) -> None:
    name = idle(world, "unaudited")
    refused = as_alice(world, {"cancelledBy": ALICE}, name)
    assert "write it together with desiredState: Cancelled" in refused
