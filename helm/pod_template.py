#!/usr/bin/env python3
"""Writes the chart's copy of the table of what a podTemplate may say: `make chart-pod-template`.

The operator's table is the one; the chart makes a ValidatingAdmissionPolicy of the copy, and a test
fails when they differ.
"""

import json
from pathlib import Path

from orbiter_operator.pods.allowlist import MAX_ITEMS, TABLE
from orbiter_operator.pods.overlay import MERGE_KEYS

FILE = Path(__file__).parent / "orbiter" / "files" / "pod-template.json"


def text() -> str:
    """The file's content."""
    content = {"fields": TABLE, "maxItems": MAX_ITEMS, "mergeKeys": MERGE_KEYS}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
