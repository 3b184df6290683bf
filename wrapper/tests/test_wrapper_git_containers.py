"""The containers that clone and push, as whole processes, and an agent that is after both."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from support.agent_user import AGENT
from support.eventually import eventually
from support.git_repositories import bare_copy, commit, git, give_password, make_template, serving
from support.queues import Queues
from support.wrapper import FakeClaude, Wrappers

from orbiter_contracts import DeveloperWorkerOutput, GitWorkspace, Workspace
from orbiter_contracts.exit_codes import INTERRUPTED
from worker_wrapper.workspace.handover import REPORT, SOCKET, read_report

pytestmark = pytest.mark.integration

PASSWORD = "pa ss'word"
COMMIT = "echo fixed > fix.txt && git add fix.txt && git commit -q -m fix >&2"
ANSWER = """echo '{"type": "result", "num_turns": 1, "result": "<result>{}</result>"}'"""


@pytest.fixture
def queues(redis: Redis) -> Queues:
    return Queues(redis)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def origin(tmp_path: Path, template: Path) -> Path:
    return bare_copy(template, tmp_path / "served" / "origin.git")


@pytest.fixture
def url(origin: Path) -> Iterator[str]:
    with serving(origin.parent) as (root, _):
        yield f"{root}/origin.git"


class Pod:
    """A pod's directories and its two containers with the credential; the worker is the test's."""

    def __init__(self, tmp_path: Path, url: str) -> None:
        self.secret = give_password(tmp_path / "secret")
        self.work, self.handover, self.private = (
            tmp_path / name for name in ("work", "handover", "private")
        )
        for directory in (self.handover, self.private):
            directory.mkdir()
        self.wanted = GitWorkspace(url=url, branch="fix", push="Always")
        self.log = tmp_path / "containers.log"
        self.log.touch()
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, which: str) -> subprocess.Popen[bytes]:
        """Start a container of the pod."""
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_WORKSPACE": self.wanted.model_dump_json(),
            "GIT_CREDENTIALS_DIR": str(self.secret),
            "WORKER_HANDOVER_DIR": str(self.handover),
            "WORKSPACE_DIR": str(self.work),
            "TMPDIR": str(self.private),
        }
        with self.log.open("ab") as output:
            command = [sys.executable, "-m", "worker_wrapper", which]
            process = subprocess.Popen(command, env=environ, stdout=output, stderr=output)
        self._started.append(process)
        return process

    async def clone(self) -> int:
        """Run the first to its end."""
        process = self.start("clone")
        await eventually(lambda: process.poll() is not None)
        return process.returncode

    async def listening(self) -> subprocess.Popen[bytes]:
        """Clone, and have the second wait for its worker."""
        assert await self.clone() == 0
        process = self.start("push")
        await eventually(lambda: (self.handover / SOCKET).exists())
        return process

    def end(self) -> None:
        """Leave nothing running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
async def pod(tmp_path: Path, url: str) -> AsyncIterator[Pod]:
    pod = Pod(tmp_path, url)
    yield pod
    pod.end()


async def worked(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, script: str
) -> DeveloperWorkerOutput:
    """Have an agent run a script in the pod, and return what its worker says."""
    fake_claude.does(f"{script}\n{ANSWER}")
    await queues.task(workspace=Workspace(git=pod.wanted))
    wrapper = wrappers.start(WORKER_HANDOVER_DIR=str(pod.handover), WORKSPACE_DIR=str(pod.work))
    assert await wrapper.exit_code() == 0
    return await queues.output()


async def test_objects_that_cannot_be_copied_are_said_with_the_reason(
    pod: Pod, origin: Path
) -> None:
    head = git(origin, "rev-parse", "main")
    (pod.private / "objects").mkdir()
    (pod.private / "objects" / head[:2]).touch()  # where a directory has to be

    assert await pod.clone() == 0

    error = read_report(pod.handover).error
    assert error is not None
    assert "File exists" in error


async def test_a_worker_without_the_credential_has_its_work_pushed(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    await pod.listening()

    output = await worked(pod, wrappers, queues, fake_claude, COMMIT)

    assert (output.status, output.error) == ("success", None)
    assert output.workspace is not None
    assert output.workspace.base_sha == git(origin, "rev-parse", "main")
    assert (output.workspace.pushed, output.workspace.branch) == (True, "fix")
    assert output.commit_sha == git(origin, "rev-parse", "fix")


async def test_the_credential_is_in_nothing_that_the_worker_sees(pod: Pod) -> None:
    await pod.listening()

    seen = subprocess.run(
        ["grep", "-rlF", PASSWORD, pod.work, pod.handover, pod.private, pod.log],
        capture_output=True,
        text=True,
    )

    assert seen.stdout == ""


async def test_a_clone_that_fails_is_the_workers_to_tell(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    (pod.secret / "password").write_text("wrong-secret")
    assert await pod.clone() == 0

    output = await worked(pod, wrappers, queues, fake_claude, COMMIT)

    assert (output.status, output.reason) == ("error", "WorkspaceError")
    why = f"git ls-remote: Authentication failed for '{pod.wanted.url}/'"
    assert (output.error or "").startswith(why)
    assert "wrong-secret" not in output.model_dump_json() + pod.log.read_text()
    assert fake_claude.turns == []


async def test_a_push_that_fails_is_no_success(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    await pod.listening()
    gone = f"mv {shlex.quote(str(origin))} {shlex.quote(str(origin))}.gone"

    output = await worked(pod, wrappers, queues, fake_claude, f"{COMMIT}\n{gone}")

    assert (output.status, output.reason) == ("failed", "WorkspaceError")
    assert output.workspace is not None
    assert (output.workspace.error or "").startswith("the work was not pushed: git push: ")


async def test_nothing_is_pushed_for_an_agent_that_has_not_succeeded(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    await pod.listening()

    output = await worked(pod, wrappers, queues, fake_claude, f"{COMMIT}\nexit 1")

    assert output.status == "error"
    assert git(origin, "branch", "--list", "fix") == ""


async def test_a_worker_without_a_report_says_who_left_none(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude
) -> None:
    output = await worked(pod, wrappers, queues, fake_claude, COMMIT)
    assert (output.status, output.reason) == ("error", "WorkspaceError")
    assert "the container git-clone has left no report" in (output.error or "")


async def test_without_a_push_the_clone_is_taken_over_and_nobody_is_waited_for(
    pod: Pod, wrappers: Wrappers, queues: Queues, fake_claude: FakeClaude, origin: Path
) -> None:
    pod.wanted = pod.wanted.model_copy(update={"push": "Never"})
    assert await pod.clone() == 0

    output = await worked(pod, wrappers, queues, fake_claude, COMMIT)

    assert output.status == "success"
    assert output.workspace is not None
    assert not output.workspace.pushed
    assert output.commit_sha == git(pod.work, "rev-parse", "HEAD")
    assert list(pod.private.iterdir()) == []


# The first time it works until it is ended; then it commits what it finds.
GOES_ON = """
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) how=$1; id=$2 ;; esac
  shift
done
file="$HOME/.claude/projects/-work/$id.jsonl"
mkdir -p "$(dirname "$file")"; echo '{"type": "user"}' >>"$file"
if [ "$how" = --session-id ]; then
  echo '{"type": "stream_event", "event": {"type": "message_start"}}'
  echo draft >draft.txt; touch "$home/working"
  trap 'exit 143' TERM
  while :; do sleep 0.05; done
fi
git add draft.txt && git commit -q -m mine >&2
"""


async def test_the_work_goes_on_from_where_it_began_when_the_branch_has_moved_on(
    pod: Pod,
    tmp_path: Path,
    wrappers: Wrappers,
    queues: Queues,
    fake_claude: FakeClaude,
    origin: Path,
) -> None:
    fake_claude.does(f"{GOES_ON}\n{ANSWER}")
    bound = await queues.bound_task("paint it", workspace={"git": pod.wanted.model_dump()})
    place = {"WORKER_HANDOVER_DIR": str(pod.handover), "WORKSPACE_DIR": str(pod.work)}
    await pod.listening()
    first = wrappers.start("job-1", **bound, **place, TERMINATION_GRACE_SECONDS="4")
    await eventually((fake_claude.bin.parent / "working").exists)
    first.send(signal.SIGTERM)
    assert await first.exit_code() == INTERRUPTED
    base = git(origin, "rev-parse", "main")
    git(tmp_path, "clone", "-q", str(origin), "colleague")
    commit(tmp_path / "colleague", "meanwhile")
    git(tmp_path / "colleague", "push", "-q", "origin", "main")
    pod.end()
    for directory in (pod.work, pod.handover, pod.private):
        shutil.rmtree(directory)
    for directory in (pod.handover, pod.private):
        directory.mkdir()

    await pod.listening()
    second = wrappers.start("job-1", **bound, **place)
    assert await second.exit_code() == 0

    output = await queues.output()
    assert (output.status, output.error) == ("success", None)
    assert output.workspace is not None
    assert (output.workspace.base_sha, output.workspace.pushed) == (base, True)
    assert git(origin, "log", "--format=%s", f"{base}..fix") == "mine"
    assert "interrupted from outside" in fake_claude.turns[1].prompt


@pytest.mark.parametrize("moment", ["waiting", "connected"])
async def test_the_container_that_pushes_ends_when_it_is_told_to(pod: Pod, moment: str) -> None:
    process = await pod.listening()
    with socket.socket(socket.AF_UNIX) as connection:
        if moment == "connected":
            connection.connect(str(pod.handover / SOCKET))
            assert await asyncio.to_thread(connection.recv, 100) == b"ready\n"
        process.send_signal(signal.SIGTERM)
        await eventually(lambda: process.poll() is not None)
    assert process.returncode == 0


async def test_a_container_that_is_started_again_waits_and_listens_to_nobody(pod: Pod) -> None:
    first = await pod.listening()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(pod.handover / SOCKET))
        assert await asyncio.to_thread(connection.recv, 100) == b"ready\n"
    first.kill()
    first.wait()

    second = pod.start("push")
    await eventually(lambda: "started_again" in pod.log.read_text())

    assert not (pod.handover / SOCKET).exists()
    assert second.poll() is None


async def test_a_container_that_is_told_nothing_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker_wrapper", "push"],
        env={"PATH": os.environ["PATH"], "GIT_WORKSPACE": "{}"},
        **{"capture_output": True, "text": True, "cwd": tmp_path},
    )
    assert done.returncode == 2
    assert done.stderr == "worker-wrapper push: GIT_WORKSPACE.url: Field required\n"


async def test_a_clone_is_made_anew_by_a_container_that_is_started_again(pod: Pod) -> None:
    assert await pod.clone() == 0
    before = (pod.handover / REPORT).read_bytes()
    assert await pod.clone() == 0
    assert (pod.handover / REPORT).read_bytes() == before


async def test_a_hostile_repository_runs_nothing_where_the_credential_is(
    pod: Pod, origin: Path, tmp_path: Path
) -> None:
    ran, draft = tmp_path / "ran", tmp_path / "draft"
    evil = f"touch {ran}; cat"
    git(tmp_path, "clone", "-q", str(origin), "draft")
    for name, text in {
        ".gitattributes": "* filter=evil diff=evil merge=evil text eol=crlf ident\n",
        ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = "ext::{evil}"\n\tupdate = !{evil}\n',
        ".gitconfig": f'[core]\n\tfsmonitor = {evil}\n[filter "evil"]\n\tsmudge = {evil}\n',
        ".lfsconfig": f"[lfs]\n\turl = file://{tmp_path}\n",
        "hooks/post-checkout": f"#!/bin/sh\n{evil}\n",
        "sitecustomize.py": f"open({str(ran)!r}, 'w')\n",
        "usercustomize.py": f"open({str(ran)!r}, 'w')\n",
        "re.py": f"open({str(ran)!r}, 'w')\n",
    }.items():
        (draft / name).parent.mkdir(exist_ok=True)
        (draft / name).write_text(text)
        (draft / name).chmod(0o755)
    (draft / "link").symlink_to(pod.secret)
    (draft / "objects").symlink_to(pod.secret)
    git(draft, "add", "-A")
    git(draft, "commit", "-qm", "evil")
    git(draft, "push", "-q", str(origin), "HEAD:main")

    await pod.listening()

    report = read_report(pod.handover)
    assert report.error is None
    assert report.base_sha == git(draft, "rev-parse", "HEAD")
    assert not ran.exists()
    assert not [path for path in pod.private.rglob("*") if path.is_symlink()]


_LOOK = """
import ctypes, json, os, socket, sys
from pathlib import Path
handover, parent = Path(sys.argv[1]), os.getppid()
found = {"sockets": [], "reached": []}
for fd in os.listdir("/proc/self/fd"):
    try:
        if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
            found["sockets"].append(fd)
    except OSError:
        pass
def reach(what, act):
    try:
        found["reached"].append([what, str(act())])
    except OSError:
        pass
for pid in filter(str.isdecimal, os.listdir("/proc")):
    if int(pid) not in (os.getpid(), parent):
        continue
    if int(pid) != os.getpid():
        reach("fd", lambda: os.listdir(f"/proc/{pid}/fd"))
        reach("environ", lambda: Path(f"/proc/{pid}/environ").read_bytes())
        reach("mem", lambda: open(f"/proc/{pid}/mem", "rb"))
libc = ctypes.CDLL(None, use_errno=True)
pidfd = os.pidfd_open(parent)
for number in range(64):
    if libc.syscall(438, pidfd, number, 0) >= 0:  # pidfd_getfd
        found["reached"].append(["pidfd_getfd", str(number)])
for path in [*handover.iterdir(), handover / "push.sock"]:
    def connect():
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(path))
    reach("connect", connect)
print(json.dumps(found))
"""

_HOLDER = """
import asyncio, os, subprocess, sys
from pathlib import Path
from worker_wrapper.process.kernel import hide_environment
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace.push_client import PushConnection
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({uid}); os.setuid({uid})
python = next(name for name in (sys.executable, "/usr/bin/python3") if os.access(name, os.X_OK))
async def main():
    {hide}
    connection = await PushConnection.make(Path(sys.argv[1]), StopTurn())
    process = await asyncio.create_subprocess_exec(
        python, "-I", "-c", sys.argv[2], sys.argv[1], cwd="/", stdout=subprocess.PIPE
    )
    print((await process.communicate())[0].decode())
    connection.close()
asyncio.run(main())
"""


_HIDDEN = "hide_environment()"
# Who was root a moment ago is hidden already.
_SEEN = "import ctypes; ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)"


def looks(pod: Pod, *, hide: bool) -> dict[str, list[list[str]]]:
    """What an agent finds that looks for the connection of a worker, hidden or (a control) not."""
    for directory in (pod.handover, *pod.handover.parents[:-2]):
        directory.chmod(0o755)
    holder = _HOLDER.format(uid=AGENT, hide=_HIDDEN if hide else _SEEN)
    done = subprocess.run(
        [sys.executable, "-c", holder, str(pod.handover), _LOOK],
        **{"stdout": subprocess.PIPE, "text": True, "check": True},
    )
    found: dict[str, list[list[str]]] = json.loads(done.stdout)
    return found


async def test_an_agent_of_the_workers_user_finds_no_way_to_the_connection(pod: Pod) -> None:
    await pod.listening()
    assert looks(pod, hide=True) == {"sockets": [], "reached": []}


async def test_of_a_worker_that_does_not_hide_the_same_agent_sees_it(pod: Pod) -> None:
    await pod.listening()
    found = looks(pod, hide=False)
    assert found["sockets"] == []
    assert {"fd", "environ"} <= {what for what, _ in found["reached"]}
