"""A claim that tasks share: their agents see each other there, and no git credential comes near."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Object
from support.world import NAMESPACE, SYSTEM, World, task

from .test_e2e_git_credential import COMMIT, WORDS, git_task, head_of

CHART = Path(__file__).resolve().parents[2] / "helm" / "orbiter"
CLAIM = "e2e-shared"
SHARED = {"persistentVolumeClaim": {"claimName": CLAIM}}
OVERLAY = {"spec": {"volumes": [{"name": "workspace", "emptyDir": None, **SHARED}]}}
PLANT = (
    "mkdir -p .git/hooks && printf '%s\\n' '#!/bin/sh' 'env > /workspace/stolen' "
    "> .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout && touch planted && "
    f"until [ -e stop ]; do grep -rlsE '{WORDS}' . >> found; sleep 0.2; done; "
    "echo found:$(cat found stolen 2>/dev/null | wc -l)"
)


@pytest.fixture(scope="module")
def allowing(world: World) -> Iterator[None]:
    """An administrator who lets podTemplates bring any volume."""
    allow = json.dumps(["spec.volumes"])
    timeout = ("--wait", "--timeout", "120s")
    words = ("upgrade", "orbiter", str(CHART), "-n", SYSTEM, "--reuse-values")
    flags = ("--set-json", f"workers.podTemplate.allow={allow}")
    world.cluster.helm(*words, *flags, *timeout)
    try:
        yield
    finally:
        world.cluster.helm("rollback", "orbiter", "-n", SYSTEM, *timeout)


@pytest.fixture
def claim(world: World) -> Iterator[None]:
    """A claim in the tests' namespace."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    meta: Object = {"name": CLAIM, "namespace": NAMESPACE}
    kinds = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    world.apply(kinds | {"metadata": meta, "spec": spec})
    yield
    world.kubectl("-n", NAMESPACE, "delete", "pvc", CLAIM, "--wait=false")


def test_who_shares_a_workspace_gets_at_no_git_credential(
    world: World, allowing: None, claim: None
) -> None:
    world.apply(task("searches", f"[[bash: {PLANT}]]\n[[result]]", workspace=SHARED))
    world.wait("searches", "Running")
    (pod,) = world.pods("searches")
    inside = ("-n", NAMESPACE, "exec", pod["metadata"]["name"], "-c", "worker", "--")
    look = (*inside, "sh", "-c", "ls /workspace")
    world.until("it is at work there", lambda: "planted" in world.kubectl(*look))

    git_task(world, "into-the-claim", "[[result]]", OVERLAY)
    refused = world.wait("into-the-claim", "Failed")
    assert refused["reason"] == "InvalidSpec"
    assert (
        "spec.podTemplate.spec.volumes[workspace] is 'persistentVolumeClaim'"
        in (refused["message"])
    )
    assert not world.jobs("into-the-claim")

    repository = git_task(world, "beside-it", f"[[bash: {COMMIT}]]\n[[result]]")
    pushed = world.wait("beside-it", "Completed")
    assert head_of(world, repository, "found") == pushed["result"]["commitSHA"]

    world.apply(task("ends-it", "[[bash: ls; touch stop]]\n[[result]]", workspace=SHARED))
    world.wait("ends-it", "Completed")
    assert "planted" in world.output_of("ends-it"), "it is another workspace"
    world.wait("searches", "Completed")
    assert "found:0" in world.output_of("searches")
