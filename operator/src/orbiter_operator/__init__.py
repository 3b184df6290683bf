"""The Kubernetes operator of AgentTask and POSession."""
