"""The operator is killed at a request of its own, and what must hold whenever that was."""

import asyncio
from itertools import pairwise

from support.eventually import eventually

from orbiter_contracts.queues import BARE, OPERATOR_GROUP
from orbiter_operator.tasks.models import FINAL


class Killer:
    """Kills the operator at the n-th request of one kind and starts it anew."""

    def __init__(self, world, when, verb, plural, nth, **settings):
        self.world = world
        self.step = (verb, plural)
        self.nth = nth
        self.settings = settings
        self.count = 0
        self.operator = None
        self.restarting = None
        setattr(world.api, when, self)

    async def start(self):
        self.operator = await self.world.start_operator(**self.settings)

    async def __call__(self, verb, plural, body):
        if (verb, plural) != self.step or self.restarting is not None:
            return
        self.count += 1
        if self.count == self.nth:
            self.operator.kill_now()
            self.restarting = asyncio.create_task(self.again())
            await asyncio.sleep(0.05)

    async def again(self):
        await self.operator.end()
        await self.operator.start()


async def check_promises(world, names):
    """What must hold after every crash."""
    for name in names:
        runs = [run for run in world.node.runs if run.task == f"team/{name}"]
        for before, after in pairwise(runs):
            assert before.ended is not None
            assert before.ended <= after.began, "two attempts at once"
        assert len([run for run in runs if run.published]) <= 1, "run again after its output"
        final = [phase for phase in world.phases(name) if phase in FINAL]
        assert final == world.phases(name)[-1:], "a final phase was left"

    async def all_is_acknowledged():
        pending = await world.redis.xpending(BARE.developer_output, OPERATOR_GROUP)
        return pending["pending"] == 0 and await world.redis.xlen(BARE.developer_input) == 0

    await eventually(all_is_acknowledged)
    outputs = await world.redis.xrange(BARE.developer_output)
    seen = [(fields["agenttask"], fields["attempt"]) for _, fields in outputs]
    assert len(seen) == len(set(seen)), "an attempt was published twice"
