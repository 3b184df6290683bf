#!/usr/bin/env python3
"""A front end of a POSession in sixty lines: a terminal bot over its two Redis streams.

    REDIS_URL=redis://chat-default:PASSWORD@127.0.0.1 python examples/chat_bot.py WORKER_ID USER_ID

WORKER_ID is the POSession's `status.workerId`, USER_ID its `spec.userId`. docs/sessions.md explains
the streams; a bot for a chat network differs only in where its lines come from and go to.
"""

import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from redis import Redis, RedisError


def ask(redis: Redis, worker_id: str, user_id: int, prompt: str) -> Iterator[dict[str, Any]]:
    """Send a message; yield its outputs as they come, the final one last."""
    stream = f"worker:po:{worker_id}:output"
    after = next((entry for entry, _ in redis.xrevrange(stream, count=1)), "0-0")
    request_id = str(uuid.uuid4())
    message = {"request_id": request_id, "user_id": user_id, "prompt": prompt}
    redis.xadd(f"worker:po:{worker_id}:input", {"data": json.dumps(message)})
    while True:
        reply = redis.xread({stream: after}, block=2000)  # ms; less than the socket timeout
        for entry, fields in reply[0][1] if reply else ():
            after = entry
            output = json.loads(fields["data"])
            if output["request_id"] == request_id:
                yield output
                if output["is_final"]:
                    return


def show(outputs: Iterable[dict[str, Any]]) -> None:
    """Print the pieces of an answer as they come, then what the final output has beyond them."""
    part, shown = 0, ""
    for output in outputs:
        if output["is_final"]:
            text = output["text"] or f"error: {output['error']}"
            print(text[len(shown) :] if text.startswith(shown) else f"\n{text}")
            return
        print(output["text"], end="", flush=True)
        if output["part"] != part:  # the agent used a tool; only its last text is the answer
            part, shown = output["part"], ""
        shown = (shown + output["text"]).lstrip("\n")


def main(url: str, worker_id: str, user_id: int) -> None:
    """Answer line after line from the terminal."""
    redis = Redis.from_url(url, decode_responses=True, protocol=2)
    for line in filter(None, map(str.strip, sys.stdin)):
        show(ask(redis, worker_id, user_id, line))


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdecimal() or "REDIS_URL" not in os.environ:
        sys.exit("usage: REDIS_URL=redis://... chat_bot.py WORKER_ID USER_ID (a number)")
    try:
        main(os.environ["REDIS_URL"], sys.argv[1], int(sys.argv[2]))
    except (KeyboardInterrupt, RedisError, ValueError) as error:
        sys.exit(str(error) or 130)  # of Ctrl-C there is nothing to tell
