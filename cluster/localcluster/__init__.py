"""A Kubernetes for development and tests: kind, somebody's own, or one made of processes."""
