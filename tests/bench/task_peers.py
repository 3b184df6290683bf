"""What a task that does nothing costs in arq and taskiq; run by bench_tasks in a Python of its own.

Producer and worker share one process and one event loop, as ours do; all limits that slow a queue
down by waiting are lifted. Prints JSON: for the queue named on the command line, the microseconds
of a task, from the first submit to the last result.
"""

import asyncio
import json
import sys
import time
from importlib.metadata import version
from urllib.parse import urlsplit

CONCURRENCY = 16


async def arq(url: str, tasks: int) -> float:
    """Enqueue, then work until the queue is empty: all results are stored by then."""
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    async def noop(ctx: object, text: str) -> str:
        return text

    settings = RedisSettings(host="127.0.0.1", port=urlsplit(url).port or 6379)
    pool = await create_pool(settings)
    began = time.perf_counter()
    for number in range(tasks):
        await pool.enqueue_job("noop", str(number))
    worker = Worker(
        functions=[func(noop, name="noop")],
        redis_pool=pool,
        burst=True,
        handle_signals=False,
        max_jobs=CONCURRENCY,
        poll_delay=0,
        queue_read_limit=1000,
    )
    await worker.main()
    took = time.perf_counter() - began
    if worker.jobs_complete != tasks:
        raise SystemExit(f"{worker.jobs_complete} of {tasks} tasks completed")
    await worker.close()
    return took


async def taskiq(url: str, tasks: int) -> float:
    """Receive in the background while tasks are sent, then take all results."""
    from taskiq.api import run_receiver_task
    from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

    broker = ListQueueBroker(url).with_result_backend(RedisAsyncResultBackend(url))

    @broker.task
    async def noop(text: str) -> str:
        return text

    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker, max_async_tasks=CONCURRENCY))
    began = time.perf_counter()
    sent = [await noop.kiq(str(number)) for number in range(tasks)]
    for number, task in enumerate(sent):
        result = await task.wait_result(check_interval=0.001, timeout=60)
        if result.return_value != str(number):
            raise SystemExit(f"answered {result.return_value!r}")
    took = time.perf_counter() - began
    receiver.cancel()
    await asyncio.wait({receiver})
    await broker.shutdown()
    return took


PEERS = {"arq": arq, "taskiq": taskiq}
# what each needs; their wishes for a version of the Redis client exclude each other
REQUIREMENTS = {"arq": ("arq",), "taskiq": ("taskiq", "taskiq-redis")}


def main() -> None:
    """Measure one peer."""
    name, url, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    took = asyncio.run(PEERS[name](url, tasks))
    print(json.dumps({"version": version(name), "us": took / tasks * 1e6}))


if __name__ == "__main__":
    main()
