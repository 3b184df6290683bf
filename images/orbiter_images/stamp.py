"""What changed: a stamp is a hash of everything that an image is made of.

A stamp is stored once an image is built, and again (with the cluster's identity) once it is loaded.
Equal stamps mean that there is nothing to do.
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from .catalog import Image
from .places import IMAGES, ROOT

STORED = IMAGES / "stamps.json"


def files_of(part: Path) -> list[Path]:
    """Return the files of a part, sorted; byte code is none of it."""
    if part.is_file():
        return [part]
    found = (path for path in part.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def stamps_of(
    images: Iterable[Image], versions: Mapping[str, str], base: str, root: Path = ROOT
) -> dict[str, str]:
    """Return the stamps of images by their short names; parents come before children."""
    marks: dict[str, str] = {}
    for image in images:
        origin = marks[image.parent] if image.parent else base
        marks[image.short] = stamp(image, versions, origin, root)
    return marks


def stamp(image: Image, versions: Mapping[str, str], origin: str, root: Path) -> str:
    """Return the stamp of one image.

    Args:
        image: The image.
        versions: versions.env; only the lines of the image's agent count.
        origin: What it is built from: a base image's name or a stamp.
        root: The repository.

    Raises:
        FileNotFoundError: A part of the image is missing.
    """
    digest = hashlib.sha256(f"{image.name} {origin}".encode())
    if image.agent:
        prefix = f"{image.agent.upper()}_"
        digest.update(repr(sorted(i for i in versions.items() if i[0].startswith(prefix))).encode())
    for part in image.parts:
        if not (root / part).exists():
            raise FileNotFoundError(f"{image.short} needs {part}, which is not there")
        for path in files_of(root / part):
            digest.update(f"{path.relative_to(root)} {path.stat().st_mode & 0o111}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Stamps:
    """The stamps of what was built and loaded, in one file.

    Every change is written at once, so that an interrupted run goes on where it was.
    """

    def __init__(self, path: Path = STORED) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stored: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def holds(self, what: str, value: str) -> bool:
        """Whether `what` was stored with this value."""
        return self._stored.get(what) == value

    def values(self, prefix: str) -> list[str]:
        """Return everything that is stored under names with this prefix."""
        with self._lock:
            return [value for name, value in self._stored.items() if name.startswith(prefix)]

    def store(self, what: str, value: str) -> None:
        """Remember it."""
        with self._lock:
            self._stored[what] = value
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(self._stored, indent=1, sort_keys=True))
            partial.replace(self._path)
