"""The filter of system calls that bubblewrap puts over a command, as the kernel reads it.

What namespaces do not divide is refused here: the kernel's keyrings, in which a host may keep
tickets and keys, and calls that only administrators need and that had holes in the past. Refused
calls fail with EPERM, as without the right to make them. The numbers are the kernel's own.

Not measured: pyseccomp makes such filters from names, but needs libseccomp.so on each machine.
"""

import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ARCH_OFFSET, _NUMBER_OFFSET = 4, 0
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
_X32 = 0x40000000  # a second table of calls on x86-64, with the same effects


class _Machine(NamedTuple):
    arch: int
    numbers: tuple[int, ...]


_COMMON = (
    *(425, 426, 427),  # io_uring_setup, _enter, _register
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fs*, mount_setattr
)
_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        (
            *(248, 249, 250),  # add_key, request_key, keyctl
            *(298, 321, 323),  # perf_event_open, bpf, userfaultfd
            *(155, 165, 166, 272, 308, 304),  # pivot_root, mount, umount2, unshare, setns, handles
            *(175, 176, 313, 246, 320),  # init_module, delete_module, finit_module, kexec*
            *(103, 163, 167, 168, 169, 179),  # syslog, acct, swapon, swapoff, reboot, quotactl
            *_COMMON,
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        (
            *(217, 218, 219),
            *(241, 280, 282),
            *(41, 40, 39, 97, 268, 265),
            *(105, 106, 273, 104, 294),
            *(116, 89, 224, 225, 142, 60),
            *_COMMON,
        ),
    ),
}


def program(machine: str) -> bytes | None:
    """Return the filter for a machine as `uname -m` names it; None for one that is not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    numbers = known.numbers
    # jumps are relative: over what is left to the refusal, the last but one
    checks = [_step(_EQUAL, n, len(numbers) - i, 0) for i, n in enumerate(numbers)]
    return b"".join(
        [
            _step(_LOAD, _ARCH_OFFSET),
            _step(_EQUAL, known.arch, 0, len(numbers) + 3),
            _step(_LOAD, _NUMBER_OFFSET),
            _step(_AT_LEAST, _X32, len(numbers) + 1, 0),
            *checks,
            _step(_RETURN, _ALLOW),
            _step(_RETURN, _REFUSE),
        ]
    )


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
