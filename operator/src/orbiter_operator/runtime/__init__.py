"""What runs: the work queue, supervision and how the process is seen; no Kubernetes, no Redis."""
