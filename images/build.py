#!/usr/bin/env python3
"""Build the container images that changed and load them into the cluster.

Without arguments: everything the demo and the tests need. Nothing changed: done in a second or two.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from orbiter_images.cli import main

if __name__ == "__main__":
    sys.exit(main())
