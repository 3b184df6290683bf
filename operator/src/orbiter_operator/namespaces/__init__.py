"""Namespaces in which tasks may run: what they need is there, and goes with their label."""
