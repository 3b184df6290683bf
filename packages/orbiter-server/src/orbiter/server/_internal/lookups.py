"""Looking up the names that the URLs of tenants lead to, in threads that nobody else needs.

A lookup cannot be stopped: one that is given up keeps its thread until the name server has said
something, which may be a tenant's. In the threads of asyncio that would keep every other name, and
whatever else runs there, waiting. The connection looks the name up once more, which is quick where
that name server has just answered: the cluster's remembers it.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

AT_ONCE: Final = 32
OF_A_NAMESPACE: Final = 2
"""Names at a time; who asks for the same one waits for the same answer."""
SECONDS: Final = 5.0


class Lookups:
    """The lookups that go on."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, "orbiter-lookup")
        self._going: dict[str, dict[tuple[str, int], asyncio.Future[object]]] = {}

    async def known(self, namespace: str, host: str, port: int) -> None:
        """Return when a name has an address.

        Raises:
            OSError: It has none, nobody says so in time, or the namespace looks up enough already.
        """
        names, name = self._going.setdefault(namespace, {}), (host, port)
        going = names.get(name)
        loop = asyncio.get_running_loop()
        if going is None or going.get_loop() is not loop:
            if len(names) >= OF_A_NAMESPACE:
                raise OSError("the names of this namespace are looked up still: try again later")
            going = loop.run_in_executor(self._threads, _address_of, host, port)
            names[name] = going
            going.add_done_callback(lambda done: self._over(namespace, name, done))
        async with asyncio.timeout(SECONDS):
            await asyncio.shield(going)

    def _over(self, namespace: str, name: tuple[str, int], done: "asyncio.Future[object]") -> None:
        names = self._going.get(namespace, {})
        if names.get(name) is done:
            del names[name]
        if not names:
            self._going.pop(namespace, None)
        if not done.cancelled():
            done.exception()  # who waited may have given up: nobody else asks


def _address_of(host: str, port: int) -> object:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (UnicodeError, OverflowError) as error:
        raise OSError(f"this is no name: {error}") from None
