"""The four frameworks that pages and the feature table compare with, each in a Python of its own.

They are no dependencies of Orbiter: `make check-peers` installs them under .orbiter/peers the first
time, and anew when a version here is another one.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ.get("ORBITER_STATE") or ROOT / ".orbiter")
OPENTELEMETRY = "opentelemetry-sdk==1.45.2"
PEERS = {
    # one of its durable executions, and its client of MCP
    "pydantic-ai": ["pydantic-ai-slim[openai,dbos,mcp]==2.68.0", OPENTELEMETRY],
    "openai-agents": ["openai-agents==0.24.0", OPENTELEMETRY],
    # its scripted model is for pytest
    "google-adk": ["google-adk[mcp]==2.13.0", "pytest"],
    "langgraph": [
        "langgraph==1.2.22",
        "langchain==1.4.7",
        "langsmith[otel]",
        OPENTELEMETRY,
        "langgraph-checkpoint-sqlite==3.1.2",
        "langchain-mcp-adapters==0.3.2",
    ],
}
"""What is installed for each; the first one's version is the peer's."""


def version_of(name: str) -> str:
    """The version of a peer."""
    return PEERS[name][0].partition("==")[2]


def python_of(name: str) -> Path:
    """Return a Python that has a peer, after installing it where that is needed.

    Raises:
        subprocess.CalledProcessError: It cannot be installed, as without a network.
    """
    home = STATE / "peers" / name
    python, stamp = home / "bin" / "python", home / "installed"
    wanted = "\n".join(PEERS[name])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--clear", home], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *PEERS[name]], check=True)
    stamp.write_text(wanted)
    return python
