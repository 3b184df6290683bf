"""An attempt that outlives its pod: what is kept of it, when, and how the next pod goes on."""
