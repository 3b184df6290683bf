"""AgentBudgets: what the tasks of a namespace may cost in a day, a week or a month."""
