"""What the worker does with a message, of each kind."""
