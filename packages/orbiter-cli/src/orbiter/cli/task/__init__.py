"""An AgentTask on this machine: the manifest, the worker, the outcome."""
