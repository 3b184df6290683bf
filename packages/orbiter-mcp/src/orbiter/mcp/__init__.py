"""Tools of MCP servers for Orbiter's agents, and agents as MCP servers."""

from orbiter.mcp.client import MCPClient
from orbiter.mcp.config import HttpServer, ServerConfig, StdioServer, load_config
from orbiter.mcp.elicitation import (
    Elicitation,
    ElicitationError,
    ElicitationHandler,
    ElicitationReply,
)
from orbiter.mcp.errors import MCPConfigError, MCPConnectionError
from orbiter.mcp.oauth import FileTokenStore, OAuth, TokenStore
from orbiter.mcp.results import Attachment, MCPResult, Progress
from orbiter.mcp.server import MCPServer
from orbiter.mcp.tool import MCPTool
from orbiter.mcp.tools import MCPToolSet, mcp_tools

__all__ = [
    "Attachment",
    "Elicitation",
    "ElicitationError",
    "ElicitationHandler",
    "ElicitationReply",
    "FileTokenStore",
    "HttpServer",
    "MCPClient",
    "MCPConfigError",
    "MCPConnectionError",
    "MCPResult",
    "MCPServer",
    "MCPTool",
    "MCPToolSet",
    "OAuth",
    "Progress",
    "ServerConfig",
    "StdioServer",
    "TokenStore",
    "load_config",
    "mcp_tools",
]
