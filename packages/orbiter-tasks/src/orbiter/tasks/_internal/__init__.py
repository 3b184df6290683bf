"""What holds orbiter.tasks together; nothing here is public."""
