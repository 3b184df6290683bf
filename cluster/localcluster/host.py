"""What a local cluster needs on the host itself, and how each bit of it is taken back.

That is a link per node with its routes, empty directories to mount on, an entry in /run that tells
checkouts of each other, and with egress one firewall table.
"""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from localcluster import node as facts
from localcluster.errors import ClusterError
from localcluster.layout import REGISTRY, Layout
from localcluster.node import Node
from localcluster.shell import run, succeeds

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
RESOLV_CONF = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
EGRESS = """\
table ip {table} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {{ {nodes} }} oifname != {{ {devices} }} masquerade
  }}
}}
"""
EMPTY_DIRECTORIES = REGISTRY / "directories"


def addresses() -> list[str]:
    """The host's IPv4 addresses, but loopback's."""
    listed = json.loads(run(["ip", "-json", "-4", "address"]))
    links = [link for link in listed if "LOOPBACK" not in link["flags"]]
    return [str(info["local"]) for link in links for info in link["addr_info"]]


def free_link(preferred: int, beside: Sequence[int] = ()) -> int:
    """The number of a link network no address of the host is in; `preferred` first.

    Args:
        preferred: where to begin.
        beside: the links that are spoken for, whether they exist yet or not.
    """
    given = map(facts.host_address, beside)
    taken = {address.rsplit(".", 1)[0] for address in (*addresses(), *given)}
    for offset in range(256):
        link = (preferred + offset) % 256
        if facts.host_address(link).rsplit(".", 1)[0] not in taken:
            return link
    raise ClusterError("all of 198.18.0.0/16 is taken on this machine: no address for a node")


def add_link(node: Node, pid: int) -> None:
    """Connect the host to the network namespace of `pid`, whose end becomes eth0."""
    remove_link(node)
    run(["ip", "link", "add", node.device, "type", "veth",
         "peer", "name", "eth0", "netns", str(pid)])  # fmt: skip
    run(["ip", "address", "add", f"{node.host_ip}/30", "dev", node.device])
    run(["ip", "link", "set", node.device, "up"])
    # A convenience for people on the host. A second cluster's routes lose against the first's.
    for network in (node.pod_cidr, facts.SERVICE_CIDR):
        succeeds(["ip", "route", "add", network, "via", node.ip])


def remove_link(node: Node) -> None:
    """Take the link away, with its routes; harmless when it is gone."""
    succeeds(["ip", "link", "delete", node.device])


def nameservers() -> tuple[str, ...]:
    """The resolvers of this machine that answer from inside the node, too."""
    for path in RESOLV_CONF:
        if path.exists():
            lines = [line.split() for line in path.read_text().splitlines()]
            found = [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]
            usable = tuple(name for name in found if not name.startswith("127.") and "." in name)
            if usable:
                return usable
    raise ClusterError(f"no nameserver for the node in {RESOLV_CONF[-1]}: egress needs one")


def open_egress(layout: Layout, nodes: Sequence[Node]) -> None:
    """Let the nodes' traffic leave this machine, masqueraded."""
    close_egress(layout)
    before = FORWARDING.read_text().strip()
    sources = ", ".join(node.ip for node in nodes)
    devices = ", ".join(f'"{node.device}"' for node in nodes)
    table = _table(layout, before)
    run(["nft", EGRESS.format(table=table, nodes=sources, devices=devices)])
    FORWARDING.write_text("1\n")


def close_egress(layout: Layout) -> None:
    """Undo `open_egress`; harmless when it was never done."""
    for before in ("0", "1"):
        if succeeds(["nft", "delete", "table", "ip", _table(layout, before)]) and before == "0":
            FORWARDING.write_text("0\n")


def _table(layout: Layout, forwarding_before: str) -> str:
    # The table's name remembers what to restore, so nothing can be lost between two writes.
    return f"orbiter-{layout.id}-{forwarding_before}"


def register(layout: Layout) -> None:
    """Make the directories to mount on and leave word of this cluster in /run."""
    REGISTRY.mkdir(exist_ok=True)
    made = _made_directories()
    missing = [path for path in facts.PRIVATE_DIRECTORIES if not Path(path).exists()]
    if missing:
        EMPTY_DIRECTORIES.write_text("\n".join({*made, *missing}))
    for path in missing:
        Path(path).mkdir(parents=True, exist_ok=True)
    (REGISTRY / layout.id).write_text(str(layout.state))


def unregister(layout: Layout) -> None:
    """Take the word back; the last cluster of the machine removes the directories, too.

    Not earlier: removing a directory detaches what other namespaces have mounted on it.
    """
    (REGISTRY / layout.id).unlink(missing_ok=True)
    if others(layout) or not REGISTRY.exists():
        return
    for path in _made_directories():
        with contextlib.suppress(OSError):  # somebody else keeps files there by now
            Path(path).rmdir()
    EMPTY_DIRECTORIES.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        REGISTRY.rmdir()


def others(layout: Layout) -> list[Path]:
    """State directories of other checkouts' clusters on this machine."""
    if not REGISTRY.exists():
        return []
    entries = [path for path in REGISTRY.iterdir() if path != EMPTY_DIRECTORIES]
    return [Path(entry.read_text()) for entry in entries if entry.name != layout.id]


def _made_directories() -> list[str]:
    return EMPTY_DIRECTORIES.read_text().split() if EMPTY_DIRECTORIES.exists() else []
