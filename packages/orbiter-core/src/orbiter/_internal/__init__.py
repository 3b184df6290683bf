"""Parts of orbiter-core that no other package imports."""
