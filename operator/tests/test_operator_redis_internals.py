"""What the operator uses of redis-py that is not its public API; a version without it fails here.

The parsers of blocking connections extend redis-py's own. `redis>=8,<9` in pyproject.toml is the
promise that goes with this.
"""

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

from redis import _parsers
from redis.asyncio.connection import Encoder

from orbiter_operator.streams.client import BoundedParser, HeadlineParser

OPERATOR = Path(__file__).resolve().parents[1]


def test_the_version_is_the_one_that_the_operator_promises_to_fit():
    project = tomllib.loads((OPERATOR / "pyproject.toml").read_text())["project"]

    assert "redis[hiredis]>=8,<9" in project["dependencies"]
    assert version("redis").split(".")[0] == "8"


def test_the_parsers_have_the_base_they_extend():
    assert issubclass(HeadlineParser, _parsers._AsyncRESP2Parser)
    base = inspect.signature(_parsers._AsyncRESP2Parser.read_response)
    assert list(base.parameters) == ["self", "disable_decoding"]
    assert callable(_parsers._AsyncRESP2Parser.parse_error)


def test_a_parser_is_given_its_stream_encoder_and_state_by_the_connection():
    reader, encoder = object(), Encoder("utf-8", "surrogateescape", decode_responses=True)
    parser = BoundedParser(socket_read_size=1)

    parser.on_connect(SimpleNamespace(_reader=reader, encoder=encoder))

    assert (parser._stream, parser.encoder, parser._connected) == (reader, encoder, True)
