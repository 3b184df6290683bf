"""AgentTasks: observed, planned, carried out."""
