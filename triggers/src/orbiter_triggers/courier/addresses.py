"""Where the courier may connect to: public addresses, and private ones that somebody has named.

A name is resolved here once for a connection, and that goes to the very address that was looked at:
a name that leads elsewhere a moment later leads nowhere.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

Network = IPv4Network | IPv6Network
_UNICAST: Final = IPv6Network("2000::/3")
"""All of IPv6 that leads anywhere in public. Outside of it are NAT64's and others' IPv4 addresses
in disguise, and the sites' own of old, of which Python knows some as global."""
_NEVER: Final[tuple[Network, ...]] = (ip_network("2002::/16"), ip_network("168.63.129.16/32"))
"""6to4, in which a private IPv4 address may be; and Azure's door of each machine to its host."""


_LOOKUPS: Final = 64
"""As many as all senders have let go of within the minute that a resolver takes for nothing."""


class PrivateAddressError(OSError):
    """A name leads to no address that may be connected to."""


def may_connect(text: str, private: Sequence[Network]) -> bool:
    """Whether an address is public, or in one of these networks.

    Args:
        text: An address as a resolver or a URL has it; anything else is none.
        private: Networks that are allowed though they are not public.
    """
    try:
        found: IPv4Address | IPv6Address = ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if any(found.version == one.version and found in one for one in private):
        return True
    if isinstance(found, IPv6Address) and found not in _UNICAST:
        return False
    never = any(found.version == one.version and found in one for one in _NEVER)
    return found.is_global and not found.is_multicast and not never


class OwnThreadsResolver(AbstractResolver):
    """Asks DNS in threads that nothing else needs.

    A thread that asks goes on when nobody waits for it any more. Whoever owns a name decides how
    long that takes; among the threads of the loop, which are few, it would be everybody's.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name.

        Raises:
            OSError: Nobody knows it.
        """

        def ask() -> list[ResolveResult]:
            flags = socket.AI_ADDRCONFIG
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags)
            return [
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=kind,
                    proto=proto,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for kind, _, proto, _, address in found
            ]

        return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    async def close(self) -> None:
        """Ask no more; what is being asked ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class PublicResolver(AbstractResolver):
    """Resolves names to such addresses.

    Args:
        inner: Who asks DNS.
        private: Networks that are allowed though they are not public.
    """

    def __init__(self, inner: AbstractResolver, private: Sequence[Network]) -> None:
        self._inner = inner
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name that may be connected to.

        Raises:
            PrivateAddressError: There is none.
        """
        found = await self._inner.resolve(host, port, family)
        allowed = [one for one in found if may_connect(one["host"], self._private)]
        if not allowed:
            raise PrivateAddressError(f"{host} leads to no public address")
        return allowed

    async def close(self) -> None:
        """Release what the inner one holds."""
        await self._inner.close()
