"""What bubblewrap is told: which parts of the machine a command sees. Only reads the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orbiter.sandbox.types import Limits

INSIDE = "1000"
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# of /etc only what programs need to start: the rest may hold secrets
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf")
ETC_FILES = {
    "passwd": f"sandbox:x:{INSIDE}:{INSIDE}::/workspace:/bin/sh\n",
    "group": f"sandbox:x:{INSIDE}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
}


def command(
    bwrap: str,
    *,
    root: Path,
    read_only: Sequence[Path],
    limits: Limits,
    info: int,
    seccomp: int,
    argv: Sequence[str],
) -> list[str]:
    """Return the whole command line.

    Args:
        bwrap: The program.
        root: The sandbox's directory, with `workspace` and `etc` in it.
        read_only: More of the machine to show, at the same paths.
        limits: What one process may use.
        info: The descriptor for bubblewrap's word of the process it started.
        seccomp: The descriptor of the filter of system calls.
        argv: What to run inside.
    """
    return [
        bwrap,
        *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *("--uid", INSIDE, "--gid", INSIDE, "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--info-fd", str(info)),
        *("--seccomp", str(seccomp)),
        *("--ro-bind", "/usr", "/usr"),
        *_top(),
        *(word for name in _ETC for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")),
        *(w for n in ETC_FILES for w in ("--ro-bind", str(root / "etc" / n), f"/etc/{n}")),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(limits.tmp_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108
        *("--size", str(limits.tmp_bytes), "--tmpfs", "/tmp"),  # noqa: S108
        *(word for path in read_only for word in ("--ro-bind", str(path), str(path))),
        *("--bind", str(root / "workspace"), "/workspace", "--chdir", "/workspace"),
        # both are file systems in memory that bubblewrap makes, writable and without a limit
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        "--",
        *limited(limits),
        *argv,
    ]


def limited(limits: Limits, *, isolated: bool = True) -> list[str]:
    """Return the words that start a program with its resource limits.

    Processes are counted by user. Inside, a sandbox's are counted apart from their user's others;
    without isolation that limit would be one for all that the user runs, and is left out.
    """
    return [
        "prlimit",
        f"--as={limits.memory_bytes}",
        *([f"--nproc={limits.processes}"] if isolated else []),
        f"--fsize={limits.file_bytes}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--",
    ]


def _top() -> Iterator[str]:
    for name in _TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
