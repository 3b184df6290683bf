"""Notifications: what there is to tell (`facts`), kept until it is told (`outbox`), and sent."""
