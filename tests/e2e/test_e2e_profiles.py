"""AgentProfiles on the cluster: tasks of few lines, a profile that comes later, who writes it."""

import json

import pytest
from support.cluster import CommandError, Object
from support.world import NAMESPACE, World, task

pytestmark = pytest.mark.e2e
EDITOR = "profiles-editor@example.com"


def profile(name: str, **spec: object) -> Object:
    meta = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "orbiter.dev/v1alpha1",
        "kind": "AgentProfile",
        "metadata": meta,
        "spec": spec,
    }


def short_task(name: str, profile_name: str) -> Object:
    """A prompt and a profile, nothing else."""
    made = task(name, "Say hello.", profileRef={"name": profile_name})
    made["spec"] = {key: made["spec"][key] for key in ("prompt", "profileRef")}
    return made


CLAUDE = {"type": "claude", "credentialsSecretRef": {"name": "claude-credentials"}}


def test_a_task_waits_for_its_profile_and_has_what_it_says(world: World) -> None:
    world.apply(short_task("profiled", "e2e-house"))
    status = world.wait("profiled", "Pending", reason="ProfileMissing")
    assert "create it" in status["message"]
    world.apply(profile("e2e-house", agent=CLAUDE, timeoutSeconds=120))
    status = world.wait("profiled", "Completed")
    assert status["agent"]["type"] == "claude"
    revision = world.cluster.get("controllerrevision", status["profile"]["revision"], NAMESPACE)
    assert revision["data"]["spec"]["timeoutSeconds"] == 120
    [job] = world.jobs("profiled")
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 120 + 2400


def test_nobody_changes_the_profile_of_a_task_that_has_begun(world: World) -> None:
    world.apply(profile("e2e-fixed", agent=CLAUDE, timeoutSeconds=120))
    world.apply(short_task("fixed-profile", "e2e-fixed"))
    name = world.wait("fixed-profile", "Completed")["profile"]["revision"]
    with pytest.raises(CommandError, match="immutable"):
        world.cluster.patch(
            "controllerrevision", name, {"data": {"spec": {"timeoutSeconds": 5}}}, NAMESPACE
        )


def test_a_profile_asks_for_no_more_than_a_task_may(world: World) -> None:
    with pytest.raises(CommandError, match="is not for a podTemplate to say"):
        world.apply(profile("e2e-greedy", podTemplate={"spec": {"hostNetwork": True}}))


@pytest.mark.parametrize(
    ("role", "reads", "writes"), [("view", True, False), ("edit", True, False)]
)
def test_who_may_run_tasks_reads_profiles_and_does_not_write_them(
    world: World, role: str, reads: bool, writes: bool
) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"profiles-{role}", "namespace": NAMESPACE},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [
            {
                "kind": "User",
                "name": f"{role}.{EDITOR}",
                "apiGroup": "rbac.authorization.k8s.io",
            }
        ],
    }
    world.apply(binding)

    def may(verb: str) -> bool:
        attributes = {
            "namespace": NAMESPACE,
            "verb": verb,
            "group": "orbiter.dev",
            "resource": "agentprofiles",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": f"{role}.{EDITOR}", "resourceAttributes": attributes},
        }
        said = world.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(review))
        return bool(json.loads(said)["status"]["allowed"])

    world.until("the roles are aggregated", lambda: may("get"))
    assert not any(map(may, ("create", "update", "patch", "delete")))
