"""Profiles on the cluster: tasks of few lines, a profile that comes later, who writes it.

No ClusterAgentProfile here is named default: it would be beneath the tasks of all other tests.
"""

import json
import uuid
from collections.abc import Iterator

import pytest
from support.cluster import CommandError, Object
from support.mini_mcp import mini_server
from support.world import NAMESPACE, World, task

pytestmark = pytest.mark.e2e
EDITOR = "profiles-editor@example.com"
GIT_SERVER = "git-server.orbiter-test.svc"
PASSWORD = "only-for-tests"  # the one in manifests/git-server.yaml


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
    assert revision["data"]["profiles"][0]["spec"]["timeoutSeconds"] == 120
    [job] = world.jobs("profiled")
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 120 + 2400


def test_nobody_changes_the_profile_of_a_task_that_has_begun(world: World) -> None:
    world.apply(profile("e2e-fixed", agent=CLAUDE, timeoutSeconds=120))
    world.apply(short_task("fixed-profile", "e2e-fixed"))
    name = world.wait("fixed-profile", "Completed")["profile"]["revision"]
    with pytest.raises(CommandError, match="immutable"):
        world.cluster.patch("controllerrevision", name, {"data": {"profiles": []}}, NAMESPACE)


def test_a_profile_asks_for_no_more_than_a_task_may(world: World) -> None:
    with pytest.raises(CommandError, match="is not for a podTemplate to say"):
        world.apply(profile("e2e-greedy", podTemplate={"spec": {"hostNetwork": True}}))


def test_an_agent_has_the_mcp_servers_of_its_profile_and_nobody_reads_their_secrets(
    world: World,
) -> None:
    secret = {"name": "e2e-mcp", "namespace": NAMESPACE}
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": secret,
            "stringData": {"token": "open-sesame"},
        }
    )
    servers = [mini_server("e2e-mcp")]
    world.apply(profile("e2e-mcp", agent={**CLAUDE, "mcpServers": servers}, timeoutSeconds=120))
    made = short_task("with-servers", "e2e-mcp")
    made["spec"]["prompt"] = "[[tool: mcp__mini__told {}]]\n[[say: it {output}]] [[result]]"
    world.apply(made)
    status = world.wait("with-servers", "Completed")
    assert "told [redacted], 11 long" in status["message"]
    stolen = mini_server("orbiter-chat", "url")
    with pytest.raises(CommandError, match=r"mcpServers\[mini\].env\[TOKEN\].*of Orbiter itself"):
        world.apply(profile("e2e-stolen", agent={**CLAUDE, "mcpServers": [stolen]}))


def test_an_agent_has_the_skills_and_instructions_of_its_profile(world: World) -> None:
    skill = "---\nname: harbour\ndescription: How to write to the harbour.\n---\nSay ahoy.\n"
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "e2e-harbour", "namespace": NAMESPACE},
            "data": {"SKILL.md": skill, "rules.md": "Ships come first."},
        }
    )
    agent = {
        **CLAUDE,
        "skills": [{"name": "harbour", "configMapRef": {"name": "e2e-harbour"}}],
        "instructions": {"configMapKeyRef": {"name": "e2e-harbour", "key": "rules.md"}},
    }
    world.apply(profile("e2e-skilled", agent=agent, timeoutSeconds=120))
    made = short_task("skilled", "e2e-skilled")
    made["spec"]["prompt"] = (
        "[[bash: cat ~/.claude/CLAUDE.md ~/.claude/skills/harbour/SKILL.md]]\n"
        "[[say: it {output}]] [[result]]"
    )
    world.apply(made)
    status = world.wait("skilled", "Completed")
    said = status["result"]["summary"]
    assert "Ships come first." in said
    assert "Say ahoy." in said


def repository_of_a_skill(world: World) -> tuple[str, str]:
    """A repository at the git server with a skill in `skills/pilot`, tagged v1: name and commit."""
    name = f"skills-{uuid.uuid4().hex[:8]}"
    script = f"""
        set -eu
        git init -q --bare --initial-branch=main /srv/git/{name}.git
        cd /srv/git/{name}.git
        text='%s\\nname: pilot\\ndescription: How ships enter.\\n%s\\nSlow down.\\n'
        blob=$(printf "$text" --- --- | git hash-object -w --stdin)
        run=$(printf '#!/bin/sh\\necho the pilot comes\\n' | git hash-object -w --stdin)
        inner=$(printf '100755 blob %s\\tcall.sh\\n' $run | git mktree)
        both='100644 blob %s\\tSKILL.md\\n040000 tree %s\\tscripts\\n'
        tree=$(printf "$both" $blob $inner | git mktree)
        tree=$(printf '040000 tree %s\\tpilot\\n' $tree | git mktree)
        tree=$(printf '040000 tree %s\\tskills\\n' $tree | git mktree)
        commit=$(git -c user.name=t -c user.email=t@t commit-tree -m skills $tree)
        git update-ref refs/heads/main $commit
        git update-ref refs/tags/v1 $commit
        echo $commit
    """
    command = ("exec", "deploy/git-server", "--", "sh", "-c", script)
    return name, world.kubectl("-n", "orbiter-test", *command).strip()


def fetched(world: World, repository: str, **changes: object) -> Object:
    """A skill of this repository, and the Secret that opens it."""
    secret = {"name": "e2e-skills-git", "namespace": NAMESPACE}
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": secret,
            "stringData": {"username": "orbiter", "password": PASSWORD},
        }
    )
    git = {
        "url": f"http://{GIT_SERVER}/{repository}.git",
        "ref": "v1",
        "path": "skills/pilot",
        "credentialsSecretRef": {"name": "e2e-skills-git"},
    }
    return {"name": "pilot", "git": git | changes}


def test_an_agent_has_the_skill_of_a_repository_and_not_what_opens_it(world: World) -> None:
    repository, commit = repository_of_a_skill(world)
    agent = {**CLAUDE, "skills": [fetched(world, repository)]}
    world.apply(profile("e2e-fetched", agent=agent, timeoutSeconds=120))
    made = short_task("fetched", "e2e-fetched")
    search = (
        "cat ~/.claude/skills/pilot/SKILL.md; ~/.claude/skills/pilot/scripts/call.sh; "
        "echo found:$(grep -rlE 'only-for-test[s]' /run /home /tmp 2>/dev/null | wc -l) "
        "secrets:$(ls -A /run/secrets 2>/dev/null | wc -l) "
        "wrote:$(touch /run/agent-skills/pilot/x 2>/dev/null && echo yes || echo no)"
    )
    made["spec"]["prompt"] = f"[[bash: {search}]]\n[[say: it {{output}}]] [[result]]"
    world.apply(made)
    status = world.wait("fetched", "Completed")
    said = status["result"]["summary"]
    assert "Slow down." in said
    assert "the pilot comes" in said
    assert "found:0 secrets:0 wrote:no" in said
    assert status["skills"] == [{"name": "pilot", "commit": commit}]
    [job] = world.jobs("fetched")
    init = job["spec"]["template"]["spec"]["initContainers"]
    assert [item["name"] for item in init] == ["git-skills"]


def test_a_skill_that_cannot_be_had_fails_the_attempt_and_says_why(world: World) -> None:
    repository, _ = repository_of_a_skill(world)
    agent = {**CLAUDE, "skills": [fetched(world, repository, ref="v9")]}
    world.apply(profile("e2e-unfetched", agent=agent, timeoutSeconds=120))
    world.apply(short_task("unfetched", "e2e-unfetched"))
    status = world.wait("unfetched", "Failed", reason="SkillsError")
    assert "agent.skills[pilot]: " in status["message"]
    assert "has no branch or tag 'v9'" in status["message"]
    assert "skills" not in status


def test_a_workspace_is_set_up_before_the_agent_begins_or_the_attempt_has_failed(
    world: World,
) -> None:
    world.apply(profile("e2e-setup", agent=CLAUDE, timeoutSeconds=120))
    made = short_task("set-up", "e2e-setup")
    made["spec"]["prompt"] = "[[bash: cat ready]]\n[[say: it is {output}]] [[result]]"
    made["spec"]["workspace"] = {"setup": "echo prepared > ready"}
    world.apply(made)
    assert "it is prepared" in world.wait("set-up", "Completed")["message"]
    failing = short_task("not-set-up", "e2e-setup")
    failing["spec"]["workspace"] = {"setup": "echo no network\nexit 3"}
    world.apply(failing)
    status = world.wait("not-set-up", "Failed", reason="SetupFailed")
    assert "exited with code 3: no network" in status["message"]


@pytest.fixture
def strict(world: World) -> Iterator[str]:
    """A profile of the cluster with what no task's podTemplate may have."""
    template = {
        "spec": {
            "volumes": [{"name": "house-tools", "emptyDir": {}}],
            "containers": [
                {
                    "name": "worker",
                    "volumeMounts": [{"name": "house-tools", "mountPath": "/house/tools"}],
                }
            ],
        }
    }
    made = profile("e2e-strict", agent=CLAUDE, timeoutSeconds=120, podTemplate=template)
    made |= {"kind": "ClusterAgentProfile", "metadata": {"name": "e2e-strict"}}
    world.apply(made)
    yield "e2e-strict"
    world.kubectl("delete", "clusteragentprofile", "e2e-strict", "--ignore-not-found")


def test_a_task_has_what_the_clusters_profile_says(world: World, strict: str) -> None:
    made = short_task("of-the-cluster", strict)
    made["spec"]["profileRef"]["kind"] = "ClusterAgentProfile"
    world.apply(made)
    status = world.wait("of-the-cluster", "Completed")
    assert (status["profile"]["kind"], status["profile"]["name"]) == ("ClusterAgentProfile", strict)
    revision = world.cluster.get("controllerrevision", status["profile"]["revision"], NAMESPACE)
    [kept] = revision["data"]["profiles"]
    assert kept["spec"]["timeoutSeconds"] == 120
    assert revision["data"]["seal"]
    [job] = world.jobs("of-the-cluster")
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert "house-tools" in [volume["name"] for volume in volumes]


def test_a_profile_of_the_cluster_names_no_secret_of_orbiter(world: World) -> None:
    greedy = profile("e2e-greedy", agent={"credentialsSecretRef": {"name": "orbiter-developer"}})
    greedy |= {"kind": "ClusterAgentProfile", "metadata": {"name": "e2e-greedy"}}
    with pytest.raises(CommandError, match="a Secret of Orbiter itself"):
        world.apply(greedy)


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
