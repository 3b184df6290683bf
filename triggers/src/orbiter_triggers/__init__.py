"""AgentTriggers: AgentTasks that nobody hands in. `__main__` is where to begin."""
