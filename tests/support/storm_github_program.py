"""A scripted GitHub as a program; its arguments are ADDRESS CERTIFICATE KEY SOCKET SEED.

It serves GitHub's API at a free port of ADDRESS, prints that port, and is told what to do at the
Unix socket, which leads into any network namespace: POST /play has a storm happen, GET /state says
what has become of it so far.
"""

import asyncio
import sys
from pathlib import Path

from aiohttp import web
from support.storm_github import Faults, Hook, StormGithub
from support.trigger_storm import Step, script

FAULTS = Faults(unsaid=0.0005)


async def main(address: str, certificate: str, key: str, path: str, seed: str) -> None:
    files = Path(certificate), Path(key)
    github = StormGithub(int(seed), FAULTS, host=address, certificate=files, root="/api/v3")
    playing: set[asyncio.Task[None]] = set()

    async def happen(steps: list[Step], pause: float) -> None:
        await github.play(steps, pause)
        await github.delivered()

    async def play(request: web.Request) -> web.Response:
        told = await request.json()
        github.hooks = {name: Hook(*each) for name, each in told["hooks"].items()}
        steps = script(int(seed), told["events"])
        playing.add(asyncio.create_task(happen(steps, told["pause"])))
        return web.json_response({"steps": len(steps)})

    async def state(request: web.Request) -> web.Response:
        failed = [one for one in playing if one.done() and one.exception() is not None]
        for one in failed:
            one.result()
        done = bool(playing) and all(one.done() for one in playing)
        return web.json_response({**github.state(), "done": done})

    application = web.Application()
    application.add_routes([web.post("/play", play), web.get("/state", state)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    await github.start()
    print(github.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
