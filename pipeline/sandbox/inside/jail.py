"""The last step before code that nobody trusts: limits of the kernel, and a filter over its calls."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from typing import Any

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER_MODE = 22, 38, 2
_CLONE_THREAD = 0x0001_0000
_X32 = 0x4000_0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000

# New processes and programs, other processes' memory, sockets, mounts and namespaces, memory that no limit counts,
# and what only administrators need. Numbers: the kernel's tables for each machine.
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 447)
_MACHINES: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000_003E,
        56,
        (
            *(
                57,
                58,
                59,
                322,
                101,
                310,
                311,
                41,
                165,
                166,
                155,
                161,
                272,
                308,
                321,
                298,
                248,
                249,
                250,
                323,
                319,
            ),
            *(246, 320, 175, 313, 176, 303, 304, 29, 30, 64, 68, 240, 103, 135, 163, 167, 169, 170, 179),
        ),
    ),
    "aarch64": (
        0xC000_00B7,
        220,
        (
            *(221, 281, 117, 270, 271, 198, 40, 39, 41, 51, 97, 268, 280, 241, 217, 218, 219, 282, 279),
            *(104, 294, 105, 273, 106, 264, 265, 194, 196, 190, 186, 180, 116, 92, 89, 224, 142, 161, 60),
        ),
    ),
}
_CLONE3 = 435


def enter(limits: dict[str, Any]) -> None:
    """Lower every limit for good and forbid new processes; threads stay possible.

    Raises:
        OSError: the kernel or the machine has no such filter.
    """
    cpu = int(limits["cpu_seconds"])
    # One second more than the soft limit, whose signal can be ignored.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    for name, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(name)[1]
        bound = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(name, (bound, bound))
    _filter_calls()
    os.environ.clear()


def _filter_calls() -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    code = program(os.uname().machine)
    libc = ctypes.CDLL(None, use_errno=True)
    bpf = Program(len(code) // 8, code)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(bpf)
    ):
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")


def program(machine: str) -> bytes:
    """The filter in the kernel's form (classic BPF over ``struct seccomp_data``).

    Raises:
        OSError: the call numbers of this machine are not known here.
    """
    if machine not in _MACHINES:
        raise OSError(errno.ENOTSUP, f"no seccomp filter for {machine}")
    architecture, clone, denied = _MACHINES[machine]
    deny = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32), deny]
    # Its flags lie in memory, where a filter can not look; libc falls back to clone.
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in (*denied, *_EVERYWHERE):
        lines += [(_EQUAL, 0, 1, number), deny]
    lines += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 1, 0, _CLONE_THREAD), deny]
    lines += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
