"""Agents and tasks over HTTP: REST, server-sent events, WebSocket and a web page."""
