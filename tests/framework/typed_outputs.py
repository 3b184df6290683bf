"""What a type checker knows of agents and their runs; `reveal_type` says it. Read, not run."""

from dataclasses import dataclass
from typing import reveal_type

from orbiter import Agent, Swarm, run
from orbiter.types import RunContext, RunResult


@dataclass
class User:
    name: str


@dataclass
class City:
    name: str


def greet(context: RunContext[User]) -> str:
    return f"You help {context.deps.name}."


def polite(context: RunContext[User], answer: str) -> str:
    return f"{answer}, {context.deps.name}"


text = Agent(name="text")
city = Agent(name="city", output_type=City)
cities = Agent(name="cities", output_type=list[City])
either = Agent(name="either", output_type=City | int)
explicit = Agent[User, City | None](name="explicit", output_type=City | None)
greeter = Agent(name="greeter", instructions=greet, output_validators=[polite])
swarm = Swarm(agents=[text, city])


@city.output_validator
def known(found: City) -> City:
    return found


async def main(some: Agent, target: Agent | Swarm) -> RunResult:
    reveal_type(text)
    reveal_type(greeter)
    reveal_type(await run(text, "hi"))
    reveal_type((await run(city, "hi")).output.name)
    reveal_type((await run(cities, "hi")).output)
    reveal_type((await run(either, "hi")).output)
    reveal_type(await run(explicit, "hi", deps=User("Ada")))
    reveal_type(run.sync(greeter, "hi", deps=User("Ada")).output)
    reveal_type(run.stream(city, "hi").result)
    reveal_type((await run(swarm, "hi", deps=5)).output)
    reveal_type((await run(target, "hi")).output)
    await run(greeter, "hi", deps="no user")
    return await run(some, "hi")
