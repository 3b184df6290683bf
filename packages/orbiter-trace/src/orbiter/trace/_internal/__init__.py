"""Private parts of orbiter-trace."""
