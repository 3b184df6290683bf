"""The cluster tool runs without being installed; its tests find it the same way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
