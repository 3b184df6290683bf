"""Whether another process beside us still lives, told by a socket that only a living one has.

lease.py asks it, so that a container that is restarted in its pod need not wait for the lease of
the process that it replaces.
"""

import socket
from pathlib import Path
from uuid import uuid4


class Presence:
    """Shows every process of this network namespace that we live, for as long as we do.

    It is a socket without a file: the kernel takes it back when the process ends, however it does.
    """

    def __init__(self) -> None:
        self.token = uuid4().hex
        self.place = _place()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.bind(_address(self.token))
        except OSError:
            self.place = ""  # who cannot be seen must not be taken for dead

    def outlived(self, token: str, place: str) -> bool:
        """Whether the process that showed itself at this place is certainly gone."""
        if not place or place != self.place:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.bind(_address(token))
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Show ourselves no longer."""
        self._socket.close()


def _place() -> str:
    """Which network namespace of which run of which machine this is; "" where nobody can tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return ""


def _address(token: str) -> bytes:
    return b"\0orbiter-worker-" + token.encode()
