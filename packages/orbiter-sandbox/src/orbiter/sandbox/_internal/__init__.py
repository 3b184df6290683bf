"""Private parts of orbiter.sandbox."""
