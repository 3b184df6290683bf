"""A receiver of webhooks: `receive.py ADDRESS FILE STATUS…` keeps each request as a line of FILE.

It prints its port, answers the first requests with these statuses and all others with 204.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

address, file, *statuses = sys.argv[1:]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"headers": headers, "body": body}) + "\n")
        self.send_response(int(statuses.pop(0)) if statuses else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer((address, 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
