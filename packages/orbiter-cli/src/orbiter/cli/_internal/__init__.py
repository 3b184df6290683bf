"""Inner parts of the commands; nothing here is public."""
