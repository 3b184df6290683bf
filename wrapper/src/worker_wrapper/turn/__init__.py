"""One turn of the agent: from a prompt to what is published of it."""
