"""Which conversation a message belongs to, and what the agent remembers of it."""
