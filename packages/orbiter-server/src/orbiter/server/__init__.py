"""Agents and tasks over HTTP: REST, server-sent events, WebSocket and a web page."""

from orbiter.server.app import create_app
from orbiter.server.config import ServerConfig
from orbiter.server.main import serve

__all__ = ["ServerConfig", "create_app", "serve"]
