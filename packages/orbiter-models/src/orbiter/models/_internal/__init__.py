"""Parts of orbiter-models that no other package imports."""
