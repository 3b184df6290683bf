"""PID 1 of a worker's image: `python3 -I /opt/orbiter/worker_start.py`.

The agent has the wrapper's uid, can end it, and is there no longer when the container starts again;
what it left in the workspace and in HOME is. So the interpreter is isolated (-I: no PYTHON*
variables, no user site, no working directory on `sys.path`), and the two places the wrapper is
imported from are named here, where the agent cannot write.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "src"), str(HERE / "lib")]

from worker_wrapper.__main__ import main  # noqa: E402 - found only now

main()
