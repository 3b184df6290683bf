"""An agent searches its container for the git credential, and its work is pushed all the same."""

import json
import uuid
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.cluster import Object
from support.world import NAMESPACE, World, task

SERVER = "git-server.orbiter-test.svc"
PASSWORD = "only-for-tests"  # the one in manifests/git-server.yaml
SECRET = "git-searched"
KEY = (
    Ed25519PrivateKey.generate()
    .private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    .decode()
)

# The brackets keep the pattern from finding the command that looks for it. The second word is what
# git sends: user and password in base64.
WORDS = "only-for-test[s]|b3JiaXRlcjpvbmx5LWZvci10ZXN0c[w]"

SEARCH = (
    f"export W='{WORDS}'; "
    'echo env:$(env | grep -v ^W= | grep -cE "$W") '
    # Every file of the container that it may read; /proc and /sys are looked at beside.
    'files:$(grep -rlsE "$W" / --exclude-dir=proc --exclude-dir=sys | wc -l) '
    'procs:$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -acE "$W") '
    "fds:$(ls /proc/1/fd 2>/dev/null | wc -l) "
    "mem:$(head -c 1 /proc/1/mem 2>&1 | grep -c denied) "
    "secrets:$(ls -A /run/secrets 2>/dev/null | wc -l) "
    "left:$(ls -A /run/git | tr '\\n' ,) "
    "wrote:$(touch /run/git/x 2>/dev/null && echo yes || echo no) "
    "others:$(ls -d /run/git-private 2>/dev/null | wc -l) "
    'socket:$(python3 -c "import socket; socket.socket(1).connect(\\"/run/git/push.sock\\")" '
    "2>&1 | grep -c FileNotFound)"
)
COMMIT = 'echo searched > found.txt && git add found.txt && git commit -q -m "Search"'


def git_task(
    world: World, name: str, prompt: str, template: Object | None = None, **agent: Any
) -> str:
    """Apply a task that pushes to a repository of its own; return that one's name."""
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "stringData": {"username": "orbiter", "password": PASSWORD, "ssh-privatekey": KEY},
        }
    )
    repository = f"searched-{uuid.uuid4().hex[:8]}"
    given = task(
        name,
        prompt.format(repository=f"{SERVER}/{repository}.git"),
        workspace={
            "git": {
                "url": f"http://{SERVER}/{repository}.git",
                "branch": "found",
                "push": "Always",
                "credentialsSecretRef": {"name": SECRET},
            }
        },
    )
    given["spec"]["agent"] |= agent
    given["spec"]["podTemplate"] = template or {}
    world.apply(given)
    return repository


def head_of(world: World, repository: str, branch: str) -> str:
    """The head of a branch at the git server."""
    command = ("git", "-C", f"/srv/git/{repository}.git", "rev-parse", branch)
    return world.kubectl("-n", "orbiter-test", "exec", "deploy/git-server", "--", *command).strip()


def test_an_agent_that_searches_finds_no_credential_and_its_work_is_pushed(world: World) -> None:
    prompt = f"[[bash: {SEARCH}; {COMMIT}]]\n[[say: {{{{output}}}}]]\n[[result]]"
    repository = git_task(world, "searching", prompt)
    status = world.wait("searching", "Completed")
    seen = world.output_of("searching")
    nothing = (
        "env:0 files:0 procs:0 fds:0 mem:1 secrets:0 left:clone.json, wrote:no others:0 socket:1"
    )
    assert nothing in seen, seen
    assert head_of(world, repository, "found") == status["result"]["commitSHA"]
    assert json.loads(seen)["workspace"]["pushed"] is True


def test_an_agent_that_is_given_the_credential_finds_it_and_pushes_by_itself(world: World) -> None:
    key = {"secretKeyRef": {"name": SECRET, "key": "password"}}
    itself = "git push -q http://orbiter:$GIT_PASSWORD@{repository} HEAD:refs/heads/by-itself"
    prompt = f"[[bash: {SEARCH}; {COMMIT}; {itself}]]\n[[say: {{{{output}}}}]]\n[[result]]"
    env = [{"name": "GIT_PASSWORD", "valueFrom": key}]
    repository = git_task(world, "entrusted", prompt, env=env)
    status = world.wait("entrusted", "Completed")
    seen = world.output_of("entrusted")
    assert "env:1 " in seen, seen
    assert PASSWORD not in seen
    assert head_of(world, repository, "by-itself") == status["result"]["commitSHA"]


def test_who_pushes_is_restricted_and_has_a_uid_of_its_own(world: World) -> None:
    until_seen = "until [ -e /tmp/seen ]; do sleep 0.2; done"
    git_task(world, "beside", f"[[bash: {until_seen}; {COMMIT}]]\n[[result]]")
    world.wait("beside", "Running")
    (pod,) = world.pods("beside")
    init = pod["spec"]["initContainers"]
    assert [item["name"] for item in init] == ["git-clone", "git-push"]
    place = ("-n", NAMESPACE, "exec", pod["metadata"]["name"], "-c")
    told = world.kubectl(*place, "git-push", "--", "cat", "/proc/1/status")
    assert "Uid:\t1001\t1001\t1001\t1001" in told
    assert "CapBnd:\t0000000000000000" in told
    # ssh starts only for a user with a name, and takes a key only with a mode it likes.
    key = "-i /run/secrets/git/ssh-privatekey -o BatchMode=yes localhost"
    script = f"ssh-keygen -y -f {key.split()[1]}; ssh -F /dev/null {key} 2>&1; true"
    ssh = world.kubectl(*place, "git-push", "--", "sh", "-c", script)
    assert ssh.startswith("ssh-ed25519 ")
    assert "Connection refused" in ssh
    world.kubectl(*place, "worker", "--", "touch", "/tmp/seen")
    assert world.wait("beside", "Completed")["result"]["commitSHA"]
