"""Programs of tests that are built from Go modules: once, into the checkout's state directory.

A directory with a go.mod, which has the version, and perhaps a main.go. The built program goes to
`bin/NAME` of the state directory, next to kubectl and helm.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.agent_clis import STATE

BUILD_SECONDS = 1200
"""What a build may take: 2 min cold on 2 cores, more while the cluster is being built beside it."""


def go_program(name: str, directory: Path, package: str = ".", *, flags: str = "-s -w") -> Path:
    """Return the path of a program, building it when it is not here yet.

    Args:
        name: What it is called.
        directory: Where its go.mod is.
        package: What of the module to build.
        flags: For the linker.
    """
    sources = sorted(file for file in directory.iterdir() if file.name in ("go.mod", "main.go"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    link, built = STATE / "bin" / name, STATE / "build" / f"{name}-{digest[:12]}"
    for place in (link.parent, built.parent):
        place.mkdir(parents=True, exist_ok=True)
    with (built.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            for old in built.parent.glob(f"{name}-*"):
                old.unlink()
            _build(sources, package, built, flags)
        link.unlink(missing_ok=True)
        link.symlink_to(built)
    return link


def _build(sources: list[Path], package: str, program: Path, flags: str) -> None:
    assert shutil.which("go"), f"Go 1.26 or newer is not on PATH; {program.name} needs it"
    new = program.with_name(f"new-{program.name}")
    # in a copy: Go completes go.mod and writes go.sum there, from its checksum database
    with tempfile.TemporaryDirectory() as directory:
        for file in sources:
            shutil.copy(file, directory)
        command = ["go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags={flags}"]
        done = subprocess.run(
            [*command, "-o", str(new), package],
            cwd=directory,
            # nothing of the machine's own libraries: it may run in an image that has none
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr[-4000:]}"
    new.rename(program)
