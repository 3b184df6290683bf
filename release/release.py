#!/usr/bin/env python3
"""Build everything that a tag releases, as far as it can be built on this machine.

`make release-dry-run` runs it; .github/workflows/release.yml runs the same program.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "images"), str(HERE.parent / "cluster")]

from orbiter_release.cli import main  # noqa: E402 - found only now

if __name__ == "__main__":
    sys.exit(main())
