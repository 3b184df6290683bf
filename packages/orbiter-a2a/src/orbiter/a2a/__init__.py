"""Agents that talk to agents of other frameworks by the A2A protocol."""
