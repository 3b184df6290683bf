"""The types of agents that AgentTasks and POSessions can name."""

AGENT_TYPES = ("claude", "codex", "factory", "gemini", "opencode", "orbiter")
UNKNOWN_TYPE = f"unknown agent type; write one of {', '.join(AGENT_TYPES)}"
"""What the API server says of all others, too."""
