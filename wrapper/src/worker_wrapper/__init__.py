"""Redis to CLI agent bridge: PID 1 of every worker container."""
