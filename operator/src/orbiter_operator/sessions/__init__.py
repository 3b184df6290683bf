"""POSessions: observed, planned, carried out."""
