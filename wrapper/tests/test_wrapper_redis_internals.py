"""What the wrapper uses of redis-py that is not its public API; a version without it fails here.

connection.py drives one bare connection and replies.py is a parser of its own, so that an entry of
any size costs a few megabytes. `redis>=8,<9` in pyproject.toml is the promise that goes with this.
"""

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from redis import _parsers
from redis.asyncio import connection
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection

from orbiter_contracts.redis_connection import TcpToPrimary, TlsToPrimary, UnixToPrimary
from orbiter_contracts.redis_replies import BoundedParser

WRAPPER = Path(__file__).resolve().parents[1]


def test_the_version_is_the_one_that_the_wrapper_promises_to_fit() -> None:
    project = tomllib.loads((WRAPPER / "pyproject.toml").read_text())["project"]

    assert "redis>=8,<9" in project["dependencies"]
    assert version("redis").split(".")[0] == "8"


def test_the_parser_of_replies_has_the_base_it_extends() -> None:
    assert issubclass(BoundedParser, _parsers._AsyncRESP2Parser)
    base = inspect.signature(_parsers._AsyncRESP2Parser.read_response)
    assert list(base.parameters) == ["self", "disable_decoding"]
    assert callable(_parsers._AsyncRESP2Parser.parse_error)


def test_a_parser_is_given_its_stream_encoder_and_state_by_the_connection() -> None:
    reader, encoder = object(), object()
    parser = BoundedParser(socket_read_size=1)

    parser.on_connect(SimpleNamespace(_reader=reader, encoder=encoder))

    assert (parser._stream, parser.encoder, parser._connected) == (reader, encoder, True)


@pytest.mark.parametrize("kind", [Connection, SSLConnection, connection.UnixDomainSocketConnection])
def test_a_connection_takes_the_options_that_the_wrapper_sets(
    kind: type[AbstractConnection],
) -> None:
    known = {name for base in kind.__mro__ for name in inspect.signature(base.__init__).parameters}
    assert known >= {
        *("protocol", "driver_info", "decode_responses", "encoding_errors", "parser_class"),
        *("socket_timeout", "socket_connect_timeout"),
    }


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("connect", set()),
        ("can_read", set()),
        ("disconnect", {"nowait"}),
        ("send_command", {"args", "kwargs"}),
        ("read_response", {"timeout", "disable_decoding"}),
    ],
)
def test_a_connection_can_be_driven_by_hand(method: str, parameters: set[str]) -> None:
    signature = inspect.signature(getattr(AbstractConnection, method))
    assert set(signature.parameters) >= parameters


def test_a_url_becomes_the_options_of_a_connection() -> None:
    options = connection.parse_url("rediss://user:word@host:7/3?max_connections=2&timeout=1")

    assert options["connection_class"] is SSLConnection
    assert (options["host"], options["port"], options["db"]) == ("host", 7, 3)
    assert (options["max_connections"], options["timeout"]) == (2, 1.0)


@pytest.mark.parametrize("kind", [TcpToPrimary, TlsToPrimary, UnixToPrimary])
def test_a_connection_is_opened_and_greeted_where_ours_do_more(
    kind: type[AbstractConnection],
) -> None:
    base = kind.__mro__[2]

    assert base.__module__ == "redis.asyncio.connection"
    assert inspect.iscoroutinefunction(base._connect)
    assert list(inspect.signature(base._connect).parameters) == ["self"]
    greeting = inspect.signature(base.on_connect_check_health)
    assert list(greeting.parameters) == ["self", "check_health"]
    assert "_connect" in inspect.getsource(base.connect_check_health)
    assert "on_connect_check_health" in inspect.getsource(base.connect_check_health)
    assert "_connection_arguments" in inspect.getsource(Connection._connect)
