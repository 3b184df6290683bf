"""AgentBudgets: what the tasks and sessions of a namespace may cost in a day, a week or a month."""
