"""Parts of orbiter-memory that no other package imports."""
