"""What goes between the worker and Redis: its connection, streams, claims, lease and state."""
