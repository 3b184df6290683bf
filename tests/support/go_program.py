"""Programs of Go modules, for tests: each built once from source, kept beside kubectl and helm.

What is built says the `go.mod` of a folder of ours, which names versions and nothing else: Go
completes it in a copy, and holds what it fetches against its checksum database.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.cluster import STATE

BUILD_SECONDS = 1500
"""What a build may take: 2 to 4 min cold on 2 cores, more while the cluster is built beside it."""


def go_program(name: str, sources: Path, *, package: str = ".", flags: str = "-s -w") -> Path:
    """Return the path of a program, building it when it is not here yet.

    Args:
        name: What it is called in `bin` of the state directory.
        sources: The folder with its go.mod.
        package: Which package it is, by default that of the folder.
        flags: For the linker.
    """
    files = sorted(file for file in sources.iterdir() if file.suffix in (".mod", ".go"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    link, built = STATE / "bin" / name, STATE / "build" / f"{name}-{digest[:12]}"
    for directory in (link.parent, built.parent):
        directory.mkdir(parents=True, exist_ok=True)
    with (built.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            for old in built.parent.glob(f"{name}-*"):
                old.unlink()
            _build(files, built, package, flags)
        link.unlink(missing_ok=True)
        link.symlink_to(built)
    return link


def _build(files: Sequence[Path], program: Path, package: str, flags: str) -> None:
    assert shutil.which("go"), f"Go 1.26 or newer is not on PATH; {program.name} needs it"
    new = program.with_name(f"new-{program.name}")
    with tempfile.TemporaryDirectory() as directory:
        for file in files:
            shutil.copy(file, directory)
        command = ["go", "build", "-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags={flags}"]
        done = subprocess.run(
            [*command, "-o", str(new), package],
            cwd=directory,
            # Nothing of the machine's own libraries: it may run in an image that has none.
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr[-4000:]}"
    new.rename(program)
