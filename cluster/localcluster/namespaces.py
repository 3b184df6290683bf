"""A node's own mount and network namespaces.

All mounts, veths, firewall tables and ports of the node exist only in there, so they vanish with
its last process: nothing to find, unmount or flush afterwards, nothing that can clash with the
host. The host keeps one end of a point-to-point link and its routes (host.py). Further nodes have
such a link to the first one, too, and reach the others through it.
"""

from localcluster import node as facts
from localcluster.host import add_link, addresses
from localcluster.layout import Layout
from localcluster.node import Node
from localcluster.shell import run, succeeds

HOLDER_ARGV = ("unshare", "--mount", "--net", "--propagation", "slave", "sleep", "infinity")

FIREWALL = """\
table ip orbiter {
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "eth0" masquerade
  }
}
"""
_SERVICES_TABLE = "96"


def enter(pid: int) -> list[str]:
    """Arguments that run what follows them inside the namespaces of `pid`."""
    return ["nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--net=/proc/{pid}/ns/net", "--"]


def set_up(node: Node, layout: Layout, holder: int) -> None:
    """Furnish the fresh namespaces that process `holder` keeps open."""
    inside = enter(holder)
    # Mounts of the host still arrive; those made inside stay inside, and pods may share them.
    run([*inside, "mount", "--make-rshared", "/"])
    for path in facts.PRIVATE_DIRECTORIES:
        own = layout.node_path(path)
        own.mkdir(parents=True, exist_ok=True)
        run([*inside, "mount", "--bind", str(own), path])
    add_link(node, holder)
    ip = [*inside, "ip"]
    run([*ip, "link", "set", "lo", "up"])
    run([*ip, "address", "add", f"{node.ip}/30", "dev", "eth0"])
    run([*ip, "link", "set", "eth0", "up"])
    run([*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    run([*inside, "nft", FIREWALL])


def are_connected(node: Node, first_pid: int) -> bool:
    """Whether the first node, where process `first_pid` lives, has its link to another."""
    return succeeds([*enter(first_pid), "ip", "link", "show", node.peer_device])


def connect(first: Node, first_pid: int, node: Node, pid: int) -> None:
    """Link a further node, where process `pid` lives, to the first one."""
    ends = (
        (first_pid, node.peer_device, node.peer_ips[0], first, node, node.pod_cidr),
        (pid, "first", node.peer_ips[1], node, first, facts.POD_CIDR),
    )
    # The kernel may not have cleared away yet the link to a node of that number that died.
    succeeds([*enter(first_pid), "ip", "link", "delete", node.peer_device])
    run([*enter(first_pid), "ip", "link", "add", node.peer_device, "type", "veth",
         "peer", "name", "first", "netns", str(pid)])  # fmt: skip
    for inside, device, address, _, _, _ in ends:
        run([*enter(inside), "ip", "address", "add", f"{address}/30", "dev", device])
        run([*enter(inside), "ip", "link", "set", device, "up"])
    for (inside, _, _, here, there, pods), via in zip(ends, reversed(node.peer_ips), strict=True):
        route = [*enter(inside), "ip", "route", "replace"]
        run([*route, there.ip, "via", via, "src", here.ip])
        run([*route, pods, "via", via])
    # Or what is for a pod that is gone would go to and fro between the two.
    run([*enter(pid), "ip", "route", "replace", "unreachable", node.pod_cidr])


def set_routes(node: Node, inside_of: int, *, egress: bool) -> None:
    """Let the node reach the host and, with egress, what lies behind it.

    Without egress everything else is unreachable at once, not after a timeout.
    """
    ip = [*enter(inside_of), "ip", "route"]
    for address in addresses():
        run([*ip, "replace", address, "via", node.host_ip])
    for stale in (["default"], ["unreachable", "default"]):
        succeeds([*ip, "delete", *stale])
    run([*ip, "add", *(["default", "via", node.host_ip] if egress else ["unreachable", "default"])])
    # The API server calls webhooks by their services' addresses. What this node sends is rewritten
    # to a pod's only where it has a way; what its pods send is rewritten before.
    local = ["iif", "lo", "to", facts.SERVICE_CIDR, "lookup", _SERVICES_TABLE]
    rule = [*enter(inside_of), "ip", "rule"]
    succeeds([*rule, "delete", *local])
    run([*rule, "add", *local])
    run([*ip, "replace", facts.SERVICE_CIDR, "via", node.host_ip, "table", _SERVICES_TABLE])
