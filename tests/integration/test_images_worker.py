"""The worker's image, as far as it is seen without a container: PID 1 never runs the agent's code.

The files are laid out as images/worker.Dockerfile does, and its own ENTRYPOINT is started, as the
agent's user where the tests run as root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from orbiter_images.places import ROOT
from redis.asyncio import Redis
from support.eventually import eventually
from support.queues import Queues
from support.redis_server import RedisServer

from orbiter_contracts.queues import BARE

DOCKERFILE = (ROOT / "images/worker.Dockerfile").read_text()
AGENT_UID = 1000
PLANTED = ("worker_wrapper/__main__", "worker_wrapper/__init__", "orbiter_contracts/__init__")
PLANTED_ANYWHERE = ("sitecustomize", "usercustomize", "json", "asyncio", "redis", "pydantic")
LOADED = """
import json, os, runpy, sys
os._exit = sys.exit  # the worker leaves by it, and would leave here too
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
except SystemExit:
    pass
files = [m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
places = {os.getcwd(), *sys.path, *files, *map(os.path.dirname, files)}
print(json.dumps([p for p in places if os.access(p or ".", os.W_OK)]))
print(json.dumps([f for f in files if "worker_wrapper" in f]))
"""


@dataclass(frozen=True)
class Container:
    """A directory with the image's files, and what a pod mounts for the agent to write to."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home/agent"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def marks(self) -> Path:
        """Where code that was planted notes that it ran."""
        return self.root / "tmp/marks"

    @property
    def environ(self) -> dict[str, str]:
        """The image's, and what a pod sets."""
        (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
        image = dict(pair.split("=", 1) for pair in block.replace("\\\n", " ").split())
        tmp = str(self.root / "tmp")
        return {
            **{name: re.sub(r"(?<![^:])/opt", f"{self.root}/opt", v) for name, v in image.items()},
            "HOME": str(self.home),
            "TMPDIR": tmp,
            "SPILL_DIR": tmp,
            "WORKSPACE_DIR": str(self.workspace),
        }

    @property
    def hostile(self) -> dict[str, str]:
        """Variables by which Python runs whatever is in the workspace."""
        workspace = str(self.workspace)
        return {
            "PYTHONPATH": workspace,
            "PYTHONHOME": workspace,
            "PYTHONSTARTUP": f"{workspace}/json.py",
            "PYTHONUSERBASE": str(self.home / ".local"),
        }

    @property
    def entrypoint(self) -> list[str]:
        """The Dockerfile's, on this machine's interpreter and below our root."""
        words: list[str] = json.loads(last(r"^ENTRYPOINT (\[.*\])$"))
        assert words[0] == "python3"
        return [_python(), *(self.below(word) for word in words[1:])]

    @property
    def workdir(self) -> str:
        return self.below(last(r"^WORKDIR (\S+)$"))

    def below(self, word: str) -> str:
        return f"{self.root}{word}" if word.startswith(("/opt", "/workspace")) else word

    def plant(self) -> None:
        """Leave code wherever a careless interpreter would find it."""
        site = self.home / f".local/lib/python3.{sys.version_info.minor}/site-packages"
        for name in (*PLANTED, *PLANTED_ANYWHERE):
            self._write(self.workspace / f"{name}.py")
        for name in PLANTED_ANYWHERE:
            self._write(site / f"{name}.py")
        (site / "evil.pth").write_text(f"import os; os.mkdir({str(self.marks)!r})\n")
        for path in (self.workspace, self.home):
            _give_away(path)

    def _write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os\nos.mkdir({str(self.marks)!r})\n")

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self.workdir,
            env=self.environ | env,
            user=_agent(),
            group=_agent(),
            extra_groups=[] if _agent() else None,
            capture_output=True,
            text=True,
        )


def last(pattern: str) -> str:
    return re.findall(pattern, DOCKERFILE, re.MULTILINE)[-1]


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The image's files, readable for everybody and writable for none but us."""
    root = Path(tempfile.mkdtemp(prefix="orbiter-worker-"))
    try:
        opt = root / "opt/orbiter"
        (opt / "lib").mkdir(parents=True)
        for source in ("contracts/src", "wrapper/src"):
            assert source in last(r"^COPY (.*/src/?)$")
            shutil.copytree(ROOT / source, opt / "src", dirs_exist_ok=True)
        for line in re.findall(r"^COPY (images/\S+\.py) /opt/orbiter/$", DOCKERFILE, re.MULTILINE):
            shutil.copy(ROOT / line, opt)
        for name in re.findall(r"^([\w.-]+)==", (ROOT / "images/worker.lock").read_text(), re.M):
            _copy_package(name, opt / "lib")
        subprocess.run(["chmod", "-R", "u-w,go-w,a+rX", str(opt)], check=True)
        root.chmod(0o755)
        yield root
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(root)], check=True)
        shutil.rmtree(root)


@pytest.fixture
def container(image: Path) -> Iterator[Container]:
    container = Container(image)
    mounts = (container.home, container.workspace, image / "tmp", image / "opt/agent/bin")
    for path in mounts:
        path.mkdir(parents=True)
        _give_away(path)
    yield container
    for path in mounts:
        shutil.rmtree(path)


@pytest.mark.parametrize("environment", ["the image's", "a hostile one"])
def test_what_the_agent_left_behind_does_not_run_when_the_container_starts_again(
    container: Container, environment: str
) -> None:
    container.plant()
    env = container.hostile if environment == "a hostile one" else {}
    done = container.run(*container.entrypoint, **env)
    assert not container.marks.exists()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "worker-wrapper: WORKER_ID is missing: set it to a name without spaces\n"


def test_the_agent_cannot_write_to_any_place_the_wrapper_is_imported_from(
    container: Container,
) -> None:
    container.plant()
    python, *flags, program = container.entrypoint
    done = container.run(python, *flags, "-c", LOADED, program, **container.hostile)
    assert done.returncode == 0, done.stderr
    writable, wrapper = map(json.loads, done.stdout.splitlines())
    assert writable == []
    assert wrapper
    assert all(file.startswith(f"{container.root}/opt/orbiter/src/") for file in wrapper)


@pytest.mark.integration
async def test_an_agent_that_plants_code_and_ends_the_worker_finds_the_same_worker_again(
    container: Container, redis: Redis, redis_server: RedisServer
) -> None:
    _claude(container, redis_server, f"kill -TERM $PPID; kill -TERM $PPID; {_PLANTS}")
    queues = Queues(redis)
    env = {"REDIS_URL": redis_server.url, "WORKER_ID": "po-1", "WORKER_TYPE": "po"}
    for text in ("first", "second"):
        await queues.message(text, request_id=text)
    answered = 0
    while answered < 2:
        process = subprocess.Popen(
            container.entrypoint,
            cwd=container.workdir,
            env=container.environ | env | {"ANTHROPIC_API_KEY": "none"},
            user=_agent(),
            group=_agent(),
            extra_groups=[] if _agent() else None,
        )
        try:
            await eventually(lambda running=process: running.poll() is not None)
        finally:
            process.kill()
            process.wait()
        # Its second signal may come before its turn is over: the next worker then goes on with it.
        assert process.returncode in (0, 143)
        answered += process.returncode == 0
        assert await redis.xlen(BARE.po_output("po-1")) == answered
    assert [answer.request_id for answer in await queues.answers(2)] == ["first", "second"]
    assert not container.marks.exists()


_PLANTS = """
for name in worker_wrapper/__main__ worker_wrapper/__init__ sitecustomize json redis; do
  mkdir -p "$(dirname "$WORK/$name")"
  echo "import os; os.mkdir('$MARKS')" > "$WORK/$name.py"
done
"""


def _claude(container: Container, server: RedisServer, script: str) -> None:
    program = container.root / "opt/agent/bin/claude"
    program.write_text(
        f"#!/bin/sh\nWORK={container.workspace}\nMARKS={container.marks}\ncat > /dev/null\n"
        f'{script}\necho \'{{"type": "result", "num_turns": 1, "result": "done"}}\'\n'
    )
    program.chmod(0o755)


def _agent() -> int | None:
    """The agent's uid; only root may take another."""
    return AGENT_UID if os.geteuid() == 0 else None


def _give_away(path: Path) -> None:
    if uid := _agent():
        subprocess.run(["chown", "-R", f"{uid}:{uid}", str(path)], check=True)


def _python() -> str:
    """An interpreter of our version that the agent's user may start."""
    minor = f"python3.{sys.version_info.minor}"
    for found in (
        str(Path(sys.executable).resolve()),
        f"/usr/local/bin/{minor}",
        f"/usr/bin/{minor}",
    ):
        with_uid = subprocess.run(
            ["setpriv", f"--reuid={_agent()}", "--clear-groups", "test", "-x", found]
            if _agent()
            else ["test", "-x", found]
        )
        if with_uid.returncode == 0:
            return found
    raise AssertionError(f"no {minor} that uid {AGENT_UID} may start")


def _copy_package(name: str, lib: Path) -> None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        # Only for older patch versions than ours, whose asyncio.timeout redis-py does not trust.
        assert name == "async-timeout"
        (lib / "async_timeout.py").write_text("from asyncio import timeout as timeout\n")
        return
    for file in found.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = lib / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(str(found.locate_file(file))), target)
