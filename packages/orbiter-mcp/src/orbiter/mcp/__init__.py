"""Tools of MCP servers for Orbiter's agents, and agents as MCP servers."""
