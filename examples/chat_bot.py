#!/usr/bin/env python3
"""A front end of a POSession in sixty lines: a terminal bot over its two Redis streams.

    REDIS_URL=redis://c%3Adefault:PASSWORD@127.0.0.1 python chat_bot.py INPUT OUTPUT USER_ID

They are the POSession's `status.inputStream`, `status.outputStream` and `spec.userId`: see
docs/sessions.md. A bot for a chat network differs only in where its lines come from and go to.
"""

import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from redis import Redis, RedisError


def ask(redis: Redis, streams: list[str], user_id: int, prompt: str) -> Iterator[dict[str, Any]]:
    """Send a message; yield its outputs as they come, the final one last."""
    inputs, outputs = streams
    after = next((entry for entry, _ in redis.xrevrange(outputs, count=1)), "0-0")
    request_id = str(uuid.uuid4())
    message = {"request_id": request_id, "user_id": user_id, "prompt": prompt}
    redis.xadd(inputs, {"data": json.dumps(message)})
    while True:
        reply = redis.xread({outputs: after}, block=2000)  # ms; less than the socket timeout
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


def main(url: str, streams: list[str], user_id: int) -> None:
    """Answer line after line from the terminal."""
    redis = Redis.from_url(url, decode_responses=True, protocol=2)
    for line in filter(None, map(str.strip, sys.stdin)):
        show(ask(redis, streams, user_id, line))


if __name__ == "__main__":
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal() or "REDIS_URL" not in os.environ:
        sys.exit("usage: REDIS_URL=redis://... chat_bot.py INPUT OUTPUT USER_ID (a number)")
    try:
        main(os.environ["REDIS_URL"], sys.argv[1:3], int(sys.argv[3]))
    except (KeyboardInterrupt, RedisError, ValueError) as error:
        sys.exit(str(error) or 130)  # of Ctrl-C there is nothing to tell
