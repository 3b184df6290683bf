"""The types of agents a worker can run: the one list that all others are held against."""

from typing import Final

AGENT_TYPES: Final = ("claude", "codex", "factory", "orbiter")
"""Each has an adapter in the wrapper and an image. CRDs, chart, READMEs and the command line name
the same; contracts/tests/test_contract_agent_types.py compares them."""
