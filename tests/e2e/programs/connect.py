"""Print, as a JSON list, how a connection to each `HOST PORT` goes: `open`, or the error."""

import json
import socket
import sys

PATIENCE_SECONDS = 3


def connection(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_SECONDS):
            return "open"
    except OSError as error:
        return str(error)


places = [word.split() for word in sys.argv[1:]]
print(json.dumps([connection(host, int(port)) for host, port in places]))
