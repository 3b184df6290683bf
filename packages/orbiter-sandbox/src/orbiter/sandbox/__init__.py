"""Places where an agent's commands and code run without harm."""
