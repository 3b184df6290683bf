"""A server's address is taken before it is announced, or the reason is a sentence."""

import socket

import pytest

from orbiter.listening import listen, url_of
from orbiter.types import OrbiterError


def test_a_free_port_is_taken_and_told():
    with listen("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        assert url_of("127.0.0.1", opened) == f"http://127.0.0.1:{port}"
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_port_in_use_is_told_with_its_address_and_the_next_step():
    with listen("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        with pytest.raises(OrbiterError, match=f"port {port} of 127.0.0.1 is in use: stop"):
            listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_told():
    with pytest.raises(OrbiterError, match=r"at 192\.0\.2\.1, port 0: .*an address of this"):
        listen("192.0.2.1", 0)


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(OrbiterError, match=r"nothing can be served at no\.host\.invalid: "):
        listen("no.host.invalid", 0)


def test_an_address_of_ipv6_is_written_as_urls_have_it():
    with listen("127.0.0.1", 0) as opened:
        assert url_of("::1", opened).startswith("http://[::1]:")
