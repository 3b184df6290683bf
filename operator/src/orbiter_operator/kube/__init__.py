"""The API server: its client, what was last seen of it, and the names of our objects."""
