"""What every package's tests may use: a real Redis, real agent CLIs, waiting for a condition."""

import sys
from pathlib import Path

for directory in ("tests", "images"):
    sys.path.insert(0, str(Path(__file__).parent / directory))

pytest_plugins = [
    "support.agent_clis",
    "support.cluster",
    "support.redis_server",
    "support.wrapper",
]
