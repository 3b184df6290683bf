"""Agents that talk to agents of other frameworks by the A2A protocol."""

from orbiter.a2a.client import A2AClient
from orbiter.a2a.remote import RemoteAgentError, RemoteTask
from orbiter.a2a.server import A2AServer

__all__ = ["A2AClient", "A2AServer", "RemoteAgentError", "RemoteTask"]
