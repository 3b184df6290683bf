"""Runs one program under supervision, and leaves nothing of it behind."""
