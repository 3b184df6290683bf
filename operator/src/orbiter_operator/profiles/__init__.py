"""AgentProfiles: what is said once of agents, and holds for the tasks that name it."""
