"""The servers of tests let go of everybody when they stop."""

import asyncio
import socket

import pytest
from support.fake_api import FakeApi


@pytest.mark.parametrize("ticks", range(6))
async def test_who_connects_while_a_server_stops_is_let_go(ticks: int) -> None:
    api = FakeApi()
    await api.start()
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", api.port)) as came:
        came.setblocking(False)
        for _ in range(ticks):  # nobody has accepted it yet, or just now, or it is served
            await asyncio.sleep(0)
        await api.stop()
        try:
            async with asyncio.timeout(10):
                assert await loop.sock_recv(came, 1) == b""
        except ConnectionResetError:
            pass
