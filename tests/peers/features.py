"""Asks Orbiter and the others what they do, and keeps the answers in bench/features.json."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from catalog import FEATURES
from homes import PEERS, ROOT, python_of, version_of

FILE = ROOT / "bench" / "features.json"
PROBES = Path(__file__).with_name("probes.py")


def asked(name: str, python: Path) -> dict[str, bool]:
    """Return what one framework answers, in the order of the table.

    Raises:
        subprocess.CalledProcessError: A probe failed in a way that is no answer.
    """
    with tempfile.TemporaryDirectory() as home:
        # whoever wants a key gets one that opens nothing
        environment = {**os.environ, "HOME": home, "OPENAI_API_KEY": "none"}
        # all of them meet the same MCP server
        environment["PROBE_SERVER_PYTHON"] = sys.executable
        done = subprocess.run(
            [python, PROBES, name.replace("-", "_")],
            stdout=subprocess.PIPE,
            cwd=home,
            env=environment,
            check=True,
        )
    found: dict[str, bool] = json.loads(done.stdout)
    return {feature.probe: found[feature.probe] for feature in FEATURES}


def collected() -> dict[str, Any]:
    """Ask everybody."""
    answers = {"orbiter": asked("orbiter", Path(sys.executable))}
    answers |= {name: asked(name, python_of(name)) for name in PEERS}
    rows = [
        {
            "what": feature.what,
            "test": feature.test,
            "found": {name: found[feature.probe] for name, found in answers.items()},
        }
        for feature in FEATURES
    ]
    return {"versions": {name: version_of(name) for name in PEERS}, "features": rows}


def mistakes(found: dict[str, Any]) -> list[str]:
    """Return the rows where our own probe and our test do not say the same."""
    return [
        f"features: {row['what']}: the probe says {row['found']['orbiter']}"
        for row in found["features"]
        if row["found"]["orbiter"] != bool(row["test"])
    ]


def write(found: dict[str, Any]) -> None:
    """Keep the answers for the table."""
    FILE.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
