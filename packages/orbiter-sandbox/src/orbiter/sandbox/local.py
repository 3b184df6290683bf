"""LocalSandbox: on this machine, in namespaces of its own, by bubblewrap."""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from orbiter.sandbox._internal import bwrap, seccomp
from orbiter.sandbox._internal.cleanup import remove
from orbiter.sandbox._internal.guard import exceeded
from orbiter.sandbox._internal.process import Setting, execute
from orbiter.sandbox.sandbox import WORKSPACE, Outcome, Sandbox
from orbiter.sandbox.types import Limits, SandboxError, SandboxUnavailableError, Stop

Isolation = Literal["bubblewrap", "none"]

# whom commands are on the host when it is root who asks: resource limits do not bind root
_NOBODY = 65534
_PATH = "/usr/local/bin:/usr/bin:/bin"
_FILTER = "seccomp"
_PROBE_SECONDS = 10.0
_PROBE_BYTES = 4096


class LocalSandbox(Sandbox):
    """Runs commands on this machine, apart from everything on it.

    A command sees the system's programs (/usr, read-only), its workspace, an empty /tmp, and its
    own processes. It has no network but its own loopback, no environment but `env`, no privileges
    and no way to get any; `limits` bound the rest.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        isolation: Isolation = "bubblewrap",
        env: Mapping[str, str] | None = None,
        read_only: Sequence[str | Path] = (),
        python: str = "python3",
    ) -> None:
        """Describe the sandbox; nothing happens before `async with`.

        Args:
            limits: How much commands may use.
            isolation: "none" runs commands as plain processes of this user, which can read and
                change whatever this user can: for code you trust as much as your own.
            env: Variables for the commands; none of this process's are passed on.
            read_only: More of this machine's files to show, at the same paths.
            python: What `run_python` runs, as found inside.
        """
        super().__init__(limits, python=python)
        if isolation not in ("bubblewrap", "none"):
            raise SandboxError(f"isolation is {isolation!r}; it can be 'bubblewrap' or 'none'")
        self._isolation = isolation
        self._env = dict(env or {})
        self._read_only = [Path(path).absolute() for path in read_only]
        self._bwrap = ""
        self._root: Path | None = None

    async def _open(self) -> None:
        if self._isolation == "bubblewrap":
            self._bwrap = _program("bwrap", "bubblewrap")
            _program("prlimit", "util-linux")
        self._root = Path(tempfile.mkdtemp(prefix="orbiter-sandbox-"))
        try:
            (self._root / "workspace").mkdir()
            (self._root / "etc").mkdir()
            for name, text in bwrap.ETC_FILES.items():
                (self._root / "etc" / name).write_text(text)
                (self._root / "etc" / name).chmod(0o644)  # whatever this process's umask is
            (self._root / "etc").chmod(0o755)
            if self._isolation == "bubblewrap":
                (self._root / _FILTER).write_bytes(_filter())
            if self._user is not None:
                for path in (self._root, self._root / "workspace"):
                    os.chown(path, self._user, self._user)
            if self._isolation == "bubblewrap":
                await self._probe()
        except BaseException:
            await self._close()
            raise

    async def _probe(self) -> None:
        try:
            outcome = await self._execute(["true"], b"", _PROBE_SECONDS, _PROBE_BYTES)
        except SandboxError as error:
            raise _unavailable(str(error)) from error
        if outcome.exit_code != 0:
            said = outcome.stderr.decode(errors="replace").strip()
            raise _unavailable(said or f"bwrap ended with exit code {outcome.exit_code}")

    async def _close(self) -> None:
        root, self._root = self._root, None
        if root is not None:
            await remove(root)

    @property
    def _user(self) -> int | None:
        return _NOBODY if self._isolation == "bubblewrap" and os.geteuid() == 0 else None

    async def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout: float, output_bytes: int
    ) -> Outcome:
        root = self._root
        if root is None:
            raise SandboxError("the sandbox is not open; use `async with` around its use")
        workspace = root / "workspace"
        isolated = self._isolation == "bubblewrap"

        def command(info: int, calls: int) -> list[str]:
            if not isolated:
                able = shutil.which("prlimit") is not None
                return [*(bwrap.limited(self.limits, isolated=False) if able else ()), *argv]
            return bwrap.command(
                self._bwrap,
                root=root,
                read_only=self._read_only,
                limits=self.limits,
                info=info,
                seccomp=calls,
                argv=argv,
            )

        async def guard(pid: int) -> Stop:
            return await exceeded(self.limits, pid, workspace)

        home = WORKSPACE if isolated else str(workspace)
        path = _PATH if isolated else os.environ.get("PATH", _PATH)
        env = {"PATH": path, "HOME": home, "LANG": "C.UTF-8", **self._env}
        setting = Setting(
            root if isolated else workspace,
            env,
            self._user,
            root / _FILTER if isolated else None,
        )
        try:
            return await execute(
                command,
                setting,
                stdin,
                timeout=timeout,
                output_bytes=output_bytes,
                guard=guard,
            )
        except OSError as error:
            raise SandboxError(f"{argv[0]}: cannot be started: {error.strerror}") from error


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise _unavailable(f"there is no program '{name}' (package {package})")
    return found


def _filter() -> bytes:
    machine = os.uname().machine
    found = seccomp.program(machine)
    if found is None:
        raise _unavailable(f"there is no filter of system calls for {machine}")
    return found


def _unavailable(reason: str) -> SandboxUnavailableError:
    return SandboxUnavailableError(
        f"this machine cannot isolate commands: {reason}. Mend that, use KubernetesSandbox, or, "
        'for code you trust as much as your own, LocalSandbox(isolation="none")'
    )
