"""What every package's tests may use: a real Redis, real agent CLIs, waiting for a condition."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tests"))

pytest_plugins = [
    "support.agent_clis",
    "support.cluster",
    "support.redis_server",
    "support.wrapper",
]
