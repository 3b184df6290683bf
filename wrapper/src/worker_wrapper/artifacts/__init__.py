"""Files of a workspace that outlive its pod: which they are, and how they are kept."""
