"""The release before this one, made of the clone's own history: its chart, its CRDs, its images."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.cluster import STATE

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.1.0"
COMMIT = "d7c0a585015b8f5c34e26fa4d5067be91ba8757b"
"""What was released under that version; the last with queues that all namespaces share."""
IMAGES = ("operator", "worker-claude")
"""Those of its images that the upgrade runs; the servers are the same ones."""
_PLACE = STATE / "releases" / VERSION
_TREE, _STATE = _PLACE / "tree", _PLACE / "state"
_TAG = 'TAG = "dev"'
_EXPORT = """
import sys
from pathlib import Path
from orbiter_images import engine
engine.choose().export(sys.argv[1], Path(sys.argv[2]))
"""


def unpacked() -> Path:
    """Its files; the tag of its images is its version, so that today's are others."""
    if not _TREE.exists():
        partial = _TREE.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        archive = ["git", "-C", str(ROOT), "archive", COMMIT]
        files = subprocess.run(archive, capture_output=True)
        assert files.returncode == 0, (
            f"this clone does not have {COMMIT}, which was released as {VERSION}: "
            f"git fetch --unshallow ({files.stderr.decode().strip()})"
        )
        subprocess.run(["tar", "-x", "-C", str(partial)], input=files.stdout, check=True)
        catalog = partial / "images" / "orbiter_images" / "catalog.py"
        text = catalog.read_text()
        assert _TAG in text
        catalog.write_text(text.replace(_TAG, f'TAG = "{VERSION}"'))
        partial.rename(_TREE)
    return _TREE


def build_images() -> None:
    """Build its images with its own program; what has been fetched for today's serves again."""
    tree = unpacked()
    (_STATE / "images").mkdir(parents=True, exist_ok=True)
    (STATE / "agents").mkdir(exist_ok=True)
    if not (_STATE / "agents").exists():
        (_STATE / "agents").symlink_to(STATE / "agents")
    for archive in (STATE / "images").glob("base-*.tar"):
        if not (_STATE / "images" / archive.name).exists():
            (_STATE / "images" / archive.name).hardlink_to(archive)
    wanted = (word for image in IMAGES for word in ("--only", image))
    _its_own(str(tree / "images" / "build.py"), "--no-load", *wanted)


def load_images() -> None:
    """Give the running cluster those of its images that it lacks."""
    cluster = [sys.executable, str(ROOT / "cluster" / "cluster.py")]
    for image in IMAGES:
        name = f"localhost/orbiter/{image}:{VERSION}"
        if subprocess.run([*cluster, "has-image", name], capture_output=True).returncode == 0:
            continue
        archive = _STATE / "images" / f"{image}.tar"
        try:
            _its_own("-c", _EXPORT, name, str(archive))
            subprocess.run([*cluster, "load-image", str(archive)], check=True)
        finally:
            archive.unlink(missing_ok=True)


def _its_own(*words: str) -> None:
    environment = os.environ | {"ORBITER_STATE": str(_STATE), "PYTHONPATH": str(_TREE / "images")}
    subprocess.run([sys.executable, *words], env=environment, cwd=_TREE, check=True)
