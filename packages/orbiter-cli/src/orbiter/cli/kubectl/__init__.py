"""`kubectl orbiter`: sessions and tasks on a cluster, from a terminal."""
