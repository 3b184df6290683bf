"""Ports for the servers of tests."""

import random
import socket

_PORTS = range(12_000, 29_000)
"""Below those that the kernel gives to connections, which begin at 32,768: a server that is killed
and started again finds its port taken else, now and then, by whoever has connected meanwhile."""
_ANY = random.SystemRandom()


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on, and that stays free."""
    for port in _ANY.sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"of 100 ports in {_PORTS} none is free")
