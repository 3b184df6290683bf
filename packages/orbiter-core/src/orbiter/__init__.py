"""Orbiter Core: Agent, Tool, Runner, Config, Events, Hooks, Swarm."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"

# Public API: these are what users import from `orbiter`. All of them are loaded right here, so
# that `orbiter.tool` is the decorator whichever module was imported first.
from orbiter.agent import Agent
from orbiter.runner import run
from orbiter.swarm import Swarm
from orbiter.tool import Tool, tool

__all__ = ["Agent", "Swarm", "Tool", "run", "tool"]
