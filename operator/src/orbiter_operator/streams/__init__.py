"""The streams that all workers share: what comes in, what goes out, what stays."""
