"""One AgentTrigger: observe, plan, execute. `app` puts the parts together."""
