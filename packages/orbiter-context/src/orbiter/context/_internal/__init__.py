"""Parts of orbiter-context that no other package imports."""
