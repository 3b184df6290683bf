"""A task works on a git repository: cloned with a mounted secret, committed, pushed."""

import json
import uuid

from support.world import NAMESPACE, World, task

SERVER = "http://git-server.orbiter-test.svc"
PASSWORD = "only-for-tests"  # the one in manifests/git-server.yaml


def git_task(name: str, prompt: str, repository: str, **git: str) -> dict[str, object]:
    """A task on a repository of the git server in the cluster."""
    workspace = {
        "git": {
            "url": f"{SERVER}/{repository}.git",
            "credentialsSecretRef": {"name": "git-credentials"},
            **git,
        }
    }
    return task(name, prompt, workspace=workspace)


def give_credentials(world: World) -> None:
    """The Secret that git tasks mount."""
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "git-credentials", "namespace": NAMESPACE},
            "stringData": {"username": "orbiter", "password": PASSWORD},
        }
    )


def test_a_commit_of_the_agent_is_pushed_to_its_branch(world: World) -> None:
    give_credentials(world)
    repository = f"shop-{uuid.uuid4().hex[:8]}"
    prompt = (
        "[[bash: cat README.md && echo changed > change.txt && git add change.txt && "
        'git commit -q -m "Add a change" && git log --oneline | wc -l]]\n'
        '[[result: {"summary": "committed"}]]'
    )
    world.apply(git_task("git-push", prompt, repository, branch="orbiter/change", push="Always"))
    pushed = world.wait("git-push", "Completed")["result"]["commitSHA"]
    assert len(pushed) == 40

    check = "[[bash: git log -1 --format=%H && cat change.txt]]\n[[say: {output}]]\n[[result]]"
    world.apply(git_task("git-check", check, repository, ref="orbiter/change"))
    world.wait("git-check", "Completed")
    report = json.loads(world.output_of("git-check"))["workspace"]
    assert report["base_sha"] == pushed


def test_a_wrong_password_is_a_workspace_error_that_does_not_show_it(world: World) -> None:
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "wrong-credentials", "namespace": NAMESPACE},
            "stringData": {"username": "orbiter", "password": "not-the-password"},
        },
        git_task(
            "git-refused",
            "[[say: hi]]",
            "private",
            credentialsSecretRef={"name": "wrong-credentials"},  # type: ignore[arg-type]
        ),
    )
    status = world.wait("git-refused", "Failed")
    assert status["reason"] == "WorkspaceError"
    assert "not-the-password" not in json.dumps(status)
    assert "private" in status["message"]


def test_the_agent_never_sees_the_git_password_in_its_environment(world: World) -> None:
    give_credentials(world)
    look = "env | grep -c only-for-tests; git remote -v; cat .git/config"
    prompt = f"[[bash: {look}]]\n[[say: {{output}}]]\n[[result]]"
    world.apply(git_task("git-nosy", prompt, "shop2"))
    world.wait("git-nosy", "Completed")
    assert PASSWORD not in world.output_of("git-nosy")
