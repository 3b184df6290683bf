"""Answer at each `ADDRESS:PORT`. An address that the machine has not got is given to its loopback
device as long as this runs, which takes NET_ADMIN."""

import errno
import fcntl
import selectors
import signal
import socket
import struct
import sys

SET_ADDRESS, SET_MASK, SET_FLAGS = 0x8916, 0x891C, 0x8914


def tell(request: int, device: str, address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fields = (device.encode(), socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(any_socket, request, struct.pack("16sHH4s8x", *fields))


def listener(address: str, port: int, added: list[str]) -> socket.socket:
    try:
        return socket.create_server((address, port))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        device = f"lo:{len(added)}"
        added.append(device)
        tell(SET_ADDRESS, device, address)
        tell(SET_MASK, device, "255.255.255.255")
        return socket.create_server((address, port))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    added: list[str] = []
    with selectors.DefaultSelector() as selector:
        try:
            for word in sys.argv[1:]:
                address, port = word.rsplit(":", 1)
                selector.register(listener(address, int(port), added), selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    key.fileobj.accept()[0].close()
        finally:
            for device in added:
                tell_down(device)


def tell_down(device: str) -> None:
    """A named address whose device is down is gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sH22x", device.encode(), 0))


main()
