"""Addresses of servers: whether one is a URL, and how an error shows it."""

import re
from urllib.parse import urlsplit


def is_http(url: str) -> bool:
    """Whether a request can be sent there."""
    try:
        parts = urlsplit(url)
        there = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(there) and not re.search(r"\s", url)


def without_user(url: str) -> str:
    """Return a URL without a password that may be in it, nor anything behind its path."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def shown(text: str) -> str:
    """Return what is no URL, without whatever in it might be a user and a password."""
    return re.sub(r"(?is)^(\w+://)?(?:.*@)?([^?#]*).*$", r"\1\2", text)
