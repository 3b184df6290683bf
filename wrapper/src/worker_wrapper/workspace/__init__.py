"""The agent's workspace: a directory, or a repository cloned into it."""
