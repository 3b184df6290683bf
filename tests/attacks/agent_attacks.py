"""From a shell in a pod of B: as the agent of a task, and as that of a session.

The control runs the same script in a privileged pod of the same image, whose first process is not
ours, which has a token, and which no policy holds.
"""

from string import Template

from attacks.field import Field
from attacks.redis_attacks import DEVELOPER
from attacks.table import Attack, Guard, Party

WORKER, SESSION = "a worker", "a session"
_UNREACHABLE = r"No route to host|Connection refused|timed out|unreachable"


def _python(code: str) -> str:
    return f"python3 -I -c '{code}' 2>&1"


def _reach(host: str, port: str) -> str:
    code = f'import socket; socket.create_connection(("{host}", {port}), 5)'
    return _python(code)


_ATTEMPTS = (
    (
        "reads the worker's variables",
        Guard.PROCESS,
        "grep -qa redis: /proc/1/environ",
        "Permission denied",
    ),
    (
        "reads the worker's memory",
        Guard.PROCESS,
        _python('open("/proc/1/mem", "rb")'),
        "Permission denied",
    ),
    ("lists what the worker has open", Guard.PROCESS, "ls /proc/1/fd/", "Permission denied"),
    ("sees where the worker's code lies", Guard.PROCESS, "cat /proc/1/maps", "Permission denied"),
    (
        "debugs the worker",
        Guard.PROCESS,
        _python(
            "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
            "assert libc.ptrace(16, 1, 0, 0) == 0, os.strerror(ctypes.get_errno())"
        ),
        "Operation not permitted",
    ),
    (
        "takes a descriptor of the worker",
        Guard.PROCESS,
        _python(
            "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); pid = os.pidfd_open(1); "
            "assert libc.syscall(438, pid, 0, 0) >= 0, os.strerror(ctypes.get_errno())"
        ),
        "Operation not permitted",
    ),
    (
        "finds the queue's URL among its variables",
        Guard.ENVIRONMENT,
        'test -n "$REDIS_URL" || { echo REDIS_URL is not set; exit 1; }',
        "REDIS_URL is not set",
    ),
    (
        "reads a service account's token",
        Guard.POD,
        "cat /var/run/secrets/kubernetes.io/serviceaccount/token",
        "No such file",
    ),
    ("becomes root", Guard.POD, _python("import os; os.setuid(0)"), "Operation not permitted"),
    (
        "opens a raw socket",
        Guard.POD,
        _python("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
        "Operation not permitted",
    ),
    (
        "mounts something",
        Guard.POD,
        "mkdir -p /tmp/m && mount -t tmpfs none /tmp/m && umount /tmp/m",
        "permission denied|not permitted|must be superuser",
    ),
    ("changes a program", Guard.POD, "touch /usr/bin/git", "Read-only|Permission denied"),
    (
        "plants a module where the worker looks for some",
        Guard.POD,
        """touch "$(python3 -I -c 'import sysconfig as s; print(s.get_path("purelib"))')/x.pth" """,
        "Read-only|Permission denied",
    ),
    ("changes who is who", Guard.POD, "echo x::0:0::/:/bin/sh >> /etc/passwd", "Read-only|denied"),
    (
        "changes the node's settings",
        Guard.POD,
        "f=/proc/sys/vm/overcommit_memory; v=$(cat $f); echo $v > $f",
        "Read-only|denied",
    ),
    ("reaches the API server", Guard.NETWORK, _reach("$api", "$api_port"), _UNREACHABLE),
    ("reaches the kubelet", Guard.NETWORK, _reach("$node", "10250"), _UNREACHABLE),
    ("reaches the operator", Guard.NETWORK, _reach("$operator", "9090"), _UNREACHABLE),
)


_PING = _python(
    "import os, socket; from urllib.parse import unquote, urlsplit; "
    'url = urlsplit(os.environ.get("URL", "")); '
    's = socket.create_connection(("$redis", 6379), 5); '
    'login = f"AUTH {unquote(url.username)} {url.password}\\r\\n" if url.username else ""; '
    's.sendall((login + "PING\\r\\n").encode()); '
    "import time; time.sleep(0.2); said = s.recv(999).decode(); "
    "assert not said.startswith(chr(45)), said"
)


def _without_password(where: str) -> Attack:
    """From where Redis can be reached; the control has the password of B's developer workers."""

    def spelled(field: Field, url: str = "") -> str:
        return f"URL='{url}' {Template(_PING).safe_substitute(field.places)}"

    return Attack(
        name=f"speaks to Redis without a password, in {where}",
        party=Party.AGENT,
        guard=Guard.REDIS,
        action=lambda field: void(field.run(where, spelled(field))),
        control=lambda field: void(field.run(where, spelled(field, field.urls[DEVELOPER]))),
        refusal="NOAUTH",
    )


def _attack(where: str, name: str, guard: Guard, script: str, refusal: str) -> Attack:
    def spelled(field: Field) -> str:
        return Template(script).safe_substitute(field.places)

    return Attack(
        name=f"{name}, in {where}",
        party=Party.AGENT,
        guard=guard,
        action=lambda field: void(field.run(where, spelled(field))),
        control=lambda field: void(field.free.run(spelled(field))),
        refusal=refusal,
    )


def void(_: object) -> None:
    """What an attempt says where it succeeds is nobody's affair."""


ATTACKS: list[Attack] = [
    *(_attack(where, *attempt) for where in (WORKER, SESSION) for attempt in _ATTEMPTS),
    *(_without_password(where) for where in (WORKER, SESSION)),
]
