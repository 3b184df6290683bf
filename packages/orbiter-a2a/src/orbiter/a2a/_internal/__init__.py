"""Not part of the public API."""
