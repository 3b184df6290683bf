"""The wrapper's own git: one command at a time, blind to every configuration but its own.

workspace.py says what to do; this module knows how to do it without being told by a repository, a
user's or the system's configuration to run something, and how to hand over credentials without
putting them anywhere: git asks askpass.py, which reads the mounted files.
"""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from worker_wrapper.process.beside import run_beside
from worker_wrapper.process.command import Command, Outcome
from worker_wrapper.process.environment import common_environment
from worker_wrapper.process.run import CannotStartError, run
from worker_wrapper.shutdown import StopTurn
from worker_wrapper.workspace import askpass
from worker_wrapper.workspace.askpass import CREDENTIALS_DIR, URL
from worker_wrapper.workspace.repository import ssh_host

_OUTPUT_BYTES = 1024 * 1024
_ASKPASS = str(Path(askpass.__file__).resolve())
_SAFE = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "",
    "core.attributesFile": "/dev/null",
    "credential.helper": "",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    # The mount belongs to root; what is in it, to us.
    "safe.directory": "*",
}
_OPTIONS = tuple(word for item in _SAFE.items() for word in ("-c", "=".join(item)))
_SAFE_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    "LC_ALL": "C",
    # The agent's HOME may hold a .netrc, and files to ignore.
    "HOME": "/dev/null",
}
SMALL: Final = (
    *("-c", "core.bigFileThreshold=32m", "-c", "core.packedGitLimit=128m"),
    *("-c", "pack.windowMemory=64m", "-c", "pack.deltaCacheSize=32m", "-c", "pack.threads=1"),
)
"""So that a large pack takes time rather than the container's memory."""
_BLAME = ("fatal: ", "error: ")
_ADVICE = (
    *("hint:", "fatal: Could not read from remote repository.", "and the repository exists."),
    "Please make sure you have the correct access rights",
)
_SSH_KEY, _KNOWN_HOSTS = "ssh-privatekey", "known_hosts"
_HOST_KEYS = "what `ssh-keyscan %s` prints once you have compared it with the host's own keys"


class GitError(Exception):
    """A git command failed; the first line says why, further ones what else git said."""


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git.

    Attributes:
        environ: Our environment.
        spill_dir: For temporary files.
        timeout_seconds: For one command.
        stop: Ends a running command early when set.
        beside: Whether an agent runs meanwhile, which is not to be touched.
    """

    environ: Mapping[str, str]
    spill_dir: Path
    timeout_seconds: float
    stop: StopTurn
    beside: bool = False

    async def __call__(
        self,
        verb: str,
        *args: str,
        workdir: Path,
        at: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> str:
        """Run one git command in a directory.

        Args:
            verb: The command, for instance `fetch`.
            *args: Its arguments.
            workdir: Where.
            at: Options of git itself, for instance `--git-dir=…`.
            env: Additions to the environment, for instance from `credentials`.
            stdin: What it reads.

        Returns:
            What it printed.

        Raises:
            GitError: It failed, took too long or was stopped.
        """
        if self.beside:
            return await self._beside(verb, (*_OPTIONS, *at, verb, *args), stdin, workdir)
        said = await self.read(verb, *args, workdir=workdir, at=at, env=env, stdin=stdin)
        return said.decode("utf-8", "replace")

    async def read(
        self,
        verb: str,
        *args: str,
        workdir: Path,
        at: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        most: int = _OUTPUT_BYTES,
    ) -> bytes:
        """The same, and the first `most` bytes that it printed, as they are.

        Raises:
            GitError: It failed, took too long or was stopped.
        """
        try:
            outcome = await run(
                Command(("git", *_OPTIONS, *at, verb, *args), stdin),
                env={**self._environment(), **(env or {})},
                workdir=workdir,
                timeout_seconds=self.timeout_seconds,
                stop=self.stop,
                spill_dir=self.spill_dir,
            )
        except CannotStartError as error:
            raise GitError(str(error)) from None
        try:
            if outcome.exit_code != 0 or outcome.timed_out or outcome.interrupted:
                raise GitError(f"git {verb}: {_why(outcome)}")
            return outcome.stdout.read(0, most)
        finally:
            outcome.stdout.close()

    async def _beside(self, verb: str, words: tuple[str, ...], stdin: bytes, workdir: Path) -> str:
        """The same while an agent runs; for commands that need only what is on this disk."""
        try:
            done = await run_beside(
                ("git", *words),
                stdin=stdin,
                env=self._environment(),
                workdir=workdir,
                timeout_seconds=self.timeout_seconds,
            )
        except OSError as error:
            raise GitError(f"cannot start git: {error.strerror}") from None
        if done.exit_code is None:
            raise GitError(f"git {verb}: took too long, or printed more than is read")
        if done.exit_code:
            said = reason(done.stderr.decode("utf-8", "replace"))
            why = said or f"failed without a word (exit code {done.exit_code})"
            raise GitError(f"git {verb}: {why}")
        return done.stdout.decode("utf-8", "surrogateescape")

    @contextmanager
    def credentials(self, url: str, directory: Path | None) -> Iterator[dict[str, str]]:
        """The environment in which git gets credentials for this URL, and for no other host.

        The helper script is made for each use and removed after it: an agent runs as the same user
        and could change one that lies around.

        Raises:
            GitError: The URL is one of SSH, and the directory lacks the key or the known hosts.
        """
        if directory is None:
            yield {}
            return
        if host := ssh_host(url):
            yield {"GIT_SSH_COMMAND": _ssh_command(host, directory)}
            return
        helpers = Path(tempfile.mkdtemp(prefix="askpass-", dir=self.spill_dir))
        try:
            script = helpers / "askpass"
            # -I: git starts it in the workspace and with the agent's HOME, and nothing of either is
            # to be imported. -S: nor has it any use for installed packages.
            python = shlex.join([sys.executable, "-I", "-S", _ASKPASS])
            script.write_text(f'#!/bin/sh\nexec {python} "$@"\n')
            script.chmod(0o700)
            yield {
                "GIT_ASKPASS": str(script),
                CREDENTIALS_DIR: str(directory),
                URL: url,
            }
        finally:
            shutil.rmtree(helpers, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        return common_environment(self.environ) | _SAFE_ENV


async def push(
    git: Git,
    repository: Path,
    url: str,
    head: str,
    branch: str,
    credentials_dir: Path | None,
    *,
    at: Sequence[str] = (),
) -> None:
    """Push a commit of a repository of ours to a branch; never by force.

    Raises:
        GitError: It was not pushed.
    """
    refs = f"{head}:refs/heads/{branch}"
    with git.credentials(url, credentials_dir) as env:
        await git("push", "-q", url, refs, workdir=repository, at=at, env=env)


async def packed(
    git: Git, repository: Path, heads: Iterable[str], base: str | None, directory: Path
) -> Path:
    """Pack what commits need beyond another one; return the pack's file.

    Raises:
        GitError: It could not be packed.
    """
    wanted = "".join(f"{head}\n" for head in heads)
    if base:
        with suppress(GitError):  # Agents may throw away what the work began with.
            await git("cat-file", "-e", f"{base}^{{commit}}", workdir=repository)
            wanted += f"^{base}\n"
    name = await git(
        *("pack-objects", "-q", "--revs", "--delta-base-offset", str(directory / "pack")),
        at=SMALL,
        workdir=repository,
        stdin=wanted.encode(),
    )
    return directory / f"pack-{name.strip()}.pack"


def _why(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "stopped"
    if outcome.timed_out:
        return "took too long"
    return reason(outcome.complaint) or f"failed without a word (exit code {outcome.exit_code})"


def reason(complaint: str) -> str:
    r"""What git complains of, the line that says why first, and no advice.

    >>> reason("remote: No.\nfatal: Authentication failed for 'URL'")
    "Authentication failed for 'URL'\nremote: No."
    """
    lines = [line.strip() for line in complaint.splitlines()]
    said = [line for line in lines if line and not line.startswith(_ADVICE)]
    said.sort(key=lambda line: not line.startswith(_BLAME))
    return "\n".join(reduce(str.removeprefix, _BLAME, line) for line in said)


def _ssh_command(host: str, directory: Path) -> str:
    """SSH with one key, to hosts that are known: to any other it could give the work away."""
    key, known_hosts = directory / _SSH_KEY, directory / _KNOWN_HOSTS
    for file, what in ((key, f"the private key for {host}"), (known_hosts, _HOST_KEYS % host)):
        if not file.is_file():
            raise GitError(
                f"the Secret with the git credentials (git.credentialsSecretRef) has no "
                f"{file.name}: add it, {what}"
            )
    hosts = [f"-oUserKnownHostsFile={known_hosts}", "-oStrictHostKeyChecking=yes"]
    options = ["-F/dev/null", "-oBatchMode=yes", "-oIdentitiesOnly=yes", *hosts]
    return shlex.join(["ssh", f"-i{key}", *options])
