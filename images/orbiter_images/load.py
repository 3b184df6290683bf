"""Into the cluster: which images it lacks, and how it gets them."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .catalog import Image
from .engine import Engine
from .places import IMAGES, ROOT, STATE
from .runner import run
from .stamp import Stamps

CLUSTER = [sys.executable, str(ROOT / "cluster/cluster.py")]
RECORD = STATE / "cluster.json"


def cluster() -> str | None:
    """Return what identifies the cluster that takes images from here; None without one.

    A cluster that was made anew is another one, though its images have the same names. Somebody's
    own cluster takes its images from a registry.
    """
    if not RECORD.exists() or not _succeeds("status"):
        return None
    record = RECORD.read_bytes()
    if json.loads(record)["kind"] == "current":
        return None
    return hashlib.sha256(record).hexdigest()[:12]


def missing(
    images: Sequence[Image], marks: Mapping[str, str], stamps: Stamps, cluster: str
) -> set[str]:
    """Return the short names of images that the cluster lacks or has an older one of."""
    fresh = [
        image
        for image in images
        if stamps.holds(f"loaded {image.short}", f"{cluster} {marks[image.short]}")
    ]
    with ThreadPoolExecutor() as pool:
        there = list(pool.map(lambda image: _succeeds("has-image", image.name), fresh))
    present = {image.short for image, known in zip(fresh, there, strict=True) if known}
    return {image.short for image in images} - present


def _succeeds(*words: str) -> bool:
    done = subprocess.run([*CLUSTER, *words], capture_output=True, check=False)
    return done.returncode == 0


def load(engine: Engine, image: Image) -> None:
    """Export an image and give it to the cluster; the archive does not stay."""
    archive = IMAGES / f"{image.short}.tar"
    try:
        engine.export(image.name, archive)
        run([*CLUSTER, "load-image", str(archive)])
    finally:
        archive.unlink(missing_ok=True)
