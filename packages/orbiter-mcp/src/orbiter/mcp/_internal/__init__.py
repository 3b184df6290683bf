"""Private parts of orbiter.mcp."""
