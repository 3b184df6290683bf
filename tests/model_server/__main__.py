"""`python -m model_server [--host H] [--port P]`: prints its address and serves until stopped.

MODEL_SCRIPT in the environment is the script of prompts that contain no directive.
"""

import argparse
import asyncio
import os
import signal

from .server import start


async def run(host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    try:
        server = await start(host, port, os.environ.get("MODEL_SCRIPT", ""))
    except OSError as error:
        raise SystemExit(
            f"model server: {host}:{port} cannot be listened at: {os.strerror(error.errno or 0)}; "
            "choose another port with --port, 0 takes one that is free"
        ) from None
    address, bound = server.sockets[0].getsockname()[:2]
    print(f"model server: http://{address}:{bound}", flush=True)
    await stopped.wait()
    server.close()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="model_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free port")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
