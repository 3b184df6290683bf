"""The command line: which verb, told how; what a verb does is in verbs.py."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from localcluster import verbs
from localcluster.choice import KINDS
from localcluster.errors import ClusterError
from localcluster.layout import from_environment

DESCRIPTION = """\
A Kubernetes for development and tests.

  cluster.py up                                bring it up, or what is missing of it
  export KUBECONFIG=$(cluster.py kubeconfig)   then kubectl, helm from .orbiter/bin
  cluster.py down                              stop it; only the built tools stay

Which cluster: kind where a Docker engine answers, otherwise one made of processes on this machine
(root on Linux). CLUSTER=local|kind|current overrides that; current uses the context that you name
with CONTEXT=<name> and no other. ORBITER_STATE is the directory of tools and state (./.orbiter).
EGRESS=1 lets pods of a local cluster reach the network outside this machine; EGRESS=0 ends that.
NODES=2 gives a local cluster a second node, NODES=1 takes it away again (with the pods on it).
"""
EXAMPLES = """\
crash tests:
  cluster.py kill apiserver && cluster.py start apiserver     (together: restart apiserver)
  components: etcd containerd apiserver controller-manager scheduler kubelet proxy policies volumes
  of a second node: node2/containerd node2/kubelet node2/proxy; node2 is all of it, with its pods
"""


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the process's exit code."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where ip and nft are, also for a bare sudo
    arguments = _parser().parse_args(argv)
    layout = from_environment()
    try:
        match arguments.verb:
            case "up":
                return verbs.up(
                    layout,
                    arguments.cluster,
                    arguments.context,
                    arguments.egress,
                    arguments.nodes,
                )
            case "down":
                return verbs.down(layout, everything=arguments.all)
            case "status":
                return verbs.status(layout, as_json=arguments.json)
            case "kubeconfig":
                return verbs.kubeconfig(layout)
            case "tools":
                return verbs.tools(layout)
            case "install":
                return verbs.install(arguments.packages)
            case "load-image":
                return verbs.load_images(layout, arguments.archives)
            case "has-image":
                return verbs.has_image(layout, arguments.name)
            case crash:
                return verbs.crash(layout, crash, arguments.component)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `... | head -1` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command continues where this one was", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster.py",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_subparsers(dest="verb", required=True, metavar="VERB").add_parser

    up = add("up", help="bring the cluster up, or what is missing of it")
    up.add_argument("--cluster", default=os.environ.get("CLUSTER", ""), metavar="|".join(KINDS))
    up.add_argument("--context", default=os.environ.get("CONTEXT", ""), help="for current")
    up.add_argument("--egress", default=os.environ.get("EGRESS", ""), metavar="0|1")

    up.add_argument("--nodes", default=os.environ.get("NODES", ""), metavar="1|2")

    down = add("down", help="stop the cluster and remove what it left")
    down.add_argument("--all", action="store_true", help="remove the built tools, too")

    status = add("status", help="say how it is; exit code 0 means ready")
    status.add_argument("--json", action="store_true")

    add("kubeconfig", help="print the path of the kubeconfig, and only that")
    add("tools", help="build what up would build, start nothing")

    install = add("install", help="apt-get install what is missing, without starting services")
    install.add_argument("packages", nargs="+", metavar="PACKAGE")

    load = add("load-image", help="make the images of OCI archives known to the nodes")
    load.add_argument("archives", nargs="+", type=Path, metavar="FILE")

    has = add("has-image", help="exit code 0 when the nodes have the image")
    has.add_argument("name", metavar="NAME")

    for verb, text in (
        ("kill", "kill -9 a component"),
        ("start", "start a dead component and wait until it is ready"),
        ("restart", "kill and start"),
    ):
        add(verb, help=text).add_argument("component", metavar="COMPONENT")
    return parser
