"""Where things are: the repository that is built from and the state directory that is kept."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ.get("ORBITER_STATE") or ROOT / ".orbiter").resolve()
IMAGES = STATE / "images"
AGENTS = STATE / "agents"
WHEELS = IMAGES / "wheels"
VERSIONS = ROOT / "images" / "versions.env"


def versions() -> dict[str, str]:
    """Return the names and values of versions.env."""
    lines = VERSIONS.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
