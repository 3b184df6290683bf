"""Which kind of cluster to use. Pure: what is known about the machine is passed in."""

from dataclasses import dataclass

from localcluster.errors import ClusterError

KINDS = ("local", "kind", "current")
CHOICES = """\
  - start a Docker engine, and kind is used            (CLUSTER=kind)
  - be root on Linux, and a local cluster is built     (CLUSTER=local; try sudo make cluster-up)
  - name a context of your own kubeconfig to be used   (CLUSTER=current CONTEXT=<name>)"""


@dataclass(frozen=True)
class Machine:
    """What can run here."""

    docker: bool
    linux: bool
    root: bool


def choose(wanted: str, context: str, machine: Machine) -> str:
    """The kind of cluster for this machine; `wanted` may be empty.

    Raises:
        ClusterError: it is unknown or cannot run here; the message lists the choices.
    """
    if wanted not in ("", *KINDS):
        raise ClusterError(f"CLUSTER={wanted} is unknown; write one of: {', '.join(KINDS)}")
    if wanted == "current" and not context:
        raise ClusterError(
            "CLUSTER=current needs the name of the context to use, so that no cluster is touched "
            "unasked: CONTEXT=<name> (kubectl config get-contexts lists them)"
        )
    if wanted == "kind" and not machine.docker:
        raise ClusterError(f"CLUSTER=kind needs a Docker engine, and none answers.\n{_choices()}")
    if wanted == "local" and not (machine.linux and machine.root):
        raise ClusterError(f"CLUSTER=local needs root on Linux.\n{_choices()}")
    if wanted:
        return wanted
    if machine.docker:
        return "kind"
    if machine.linux and machine.root:
        return "local"
    raise ClusterError(f"No Docker engine answers, and this is not root on Linux.\n{_choices()}")


def _choices() -> str:
    return f"You can\n{CHOICES}"
