"""Wheels and sdists of every package, by the build backend that is pinned in requirements.lock.

In this process, because a program for each costs more than the build. Nothing is fetched.
"""

import contextlib
import tarfile
import tempfile
from pathlib import Path

from orbiter_images.runner import StepError


def build(directories: list[Path], into: Path) -> list[Path]:
    """Build a wheel and an sdist of each package; return the files.

    SOURCE_DATE_EPOCH in the environment is the time that they say.
    """
    from hatchling import build as backend

    into.mkdir(parents=True, exist_ok=True)
    built = []
    for directory in directories:
        with contextlib.chdir(directory):
            built += [backend.build_wheel(str(into)), backend.build_sdist(str(into))]
    return [into / name for name in built]


def rebuilt(sdist: Path, into: Path) -> Path:
    """Build a wheel of an sdist, as somebody does who has nothing else."""
    from hatchling import build as backend

    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as archive:
            archive.extractall(directory, filter="data")
        [source] = Path(directory).iterdir()
        with contextlib.chdir(source):
            return into / backend.build_wheel(str(into))


def check(built: list[Path]) -> int:
    """See that each sdist makes the wheel that lies beside it; return how many there are.

    Raises:
        StepError: One makes another.
    """
    sdists = [file for file in built if file.name.endswith(".tar.gz")]
    with tempfile.TemporaryDirectory() as directory:
        for sdist in sdists:
            again = rebuilt(sdist, Path(directory))
            if again.read_bytes() != (sdist.parent / again.name).read_bytes():
                raise StepError(f"{sdist.name} makes another {again.name} than its source does")
    return len(sdists)
