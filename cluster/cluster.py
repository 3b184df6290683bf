#!/usr/bin/env python3
"""Entry point of the cluster tool: `python3 cluster/cluster.py --help`.

It runs on the system's own Python before any virtual environment exists, so everything behind it
uses the standard library only.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whatever Python a machine has starts this
    sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")

from localcluster.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
