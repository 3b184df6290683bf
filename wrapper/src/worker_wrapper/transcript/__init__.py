"""What goes into a transcript of the agent, and how it is written beside a turn."""
