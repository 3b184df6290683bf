"""Into the cluster: which images it lacks, and how it gets them."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import archive as contents
from .catalog import Image
from .engine import Engine
from .places import IMAGES, ROOT, STATE
from .runner import run
from .stamp import Stamps

LAYERS = "layers of "
CLUSTER = [sys.executable, str(ROOT / "cluster/cluster.py")]
RECORD = STATE / "cluster.json"


def cluster() -> str | None:
    """Return what identifies the cluster that takes images from here; None without one.

    A cluster that was made anew is another one, though its images have the same names. Somebody's
    own cluster takes its images from a registry.
    """
    if not RECORD.exists() or not _succeeds("status"):
        return None
    record = json.loads(RECORD.read_text())
    if record["kind"] == "current":
        return None
    return f"{record['kind']}-{record.get('link', '')}"


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


def load(engine: Engine, image: Image, cluster: str, mark: str, stamps: Stamps) -> None:
    """Export an image and give it to the cluster; the archive does not stay."""
    archive = IMAGES / f"{image.short}.tar"
    small = IMAGES / f"{image.short}-small.tar"
    try:
        engine.export(image.name, archive)
        layers = contents.layers(archive)
        # Only of buildah's archives and the local cluster's containerd is it known to work.
        proven = engine.kind == "buildah" and cluster.startswith("local")
        known = known_layers(stamps, cluster) & set(layers) if proven else set()
        if not known or not _succeeds_without(known, archive, small, image):
            run([*CLUSTER, "load-image", str(archive)])
    finally:
        archive.unlink(missing_ok=True)
        small.unlink(missing_ok=True)
    stamps.store(f"{LAYERS}{image.short}", " ".join([cluster, *layers]))
    stamps.store(f"loaded {image.short}", f"{cluster} {mark}")


def known_layers(stamps: Stamps, cluster: str) -> set[str]:
    """Return the layers of all images that were loaded into this cluster."""
    noted = (value.split(" ") for value in stamps.values(LAYERS))
    return {layer for words in noted if words[0] == cluster for layer in words[1:]}


def _succeeds_without(known: set[str], archive: Path, small: Path, image: Image) -> bool:
    """Load without the known layers; it fails when the cluster has dropped one of them."""
    contents.without(archive, small, image.name, known)
    return _succeeds("load-image", str(small))
