"""The boundary without bubblewrap: namespaces of its own, and a root of read-only binds."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from pathlib import Path
from typing import Any

_NEW_MOUNTS, _NEW_CGROUP, _NEW_UTS, _NEW_IPC = 0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x1000_0000, 0x2000_0000, 0x4000_0000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 24, 28
_NO_ROOT = 0b101111  # SECBIT_NOROOT, NO_SETUID_FIXUP and their locks, KEEP_CAPS_LOCKED
_NOBODY = 65534
_CAPABILITIES_V3 = 0x2008_0522
_libc = ctypes.CDLL(None, use_errno=True)


def enter(job: dict[str, Any]) -> None:
    """Continue as a grandchild inside; this process waits outside and ends with its status.

    The job: ``root`` (an empty folder), ``binds``, ``hidden`` (folders shown empty), ``devices``, ``scratch`` (path and
    bytes), ``info`` (descriptor that is told the first process's id).

    Raises:
        OSError: the kernel allows no such namespaces.
    """
    _die_with_parent()
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    user, group = os.getuid(), os.getgid()
    _call(
        _libc.unshare, _NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_NETWORK | _NEW_IPC | _NEW_UTS | _NEW_CGROUP
    )
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{_NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{_NOBODY} {group} 1")
    first = os.fork()
    if first:
        os.write(job["info"], json.dumps({"child-pid": first}).encode())
        os.close(job["info"])
        _leave(os.waitpid(first, 0)[1])
    os.close(job["info"])
    _die_with_parent()
    _change_root(job)
    inner = os.fork()
    if inner:  # the namespace's first process must not be the program: it would be deaf to signals
        _close_all()
        while True:
            pid, status = os.wait()
            if pid == inner:
                _leave(status)
    os.setsid()
    _drop_capabilities(last)


def _change_root(job: dict[str, Any]) -> None:
    root = Path(job["root"])
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    _mount("tmpfs", str(root), "tmpfs", _NO_SETUID | _NO_DEVICES, "size=1m,nr_inodes=4096,mode=755")
    for source in job["binds"]:
        target = root / source.lstrip("/")
        _place(Path(source), target)
        _mount(source, str(target), None, _BIND)
        _mount("none", str(target), None, _BIND | _REMOUNT | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
    for device in job["devices"]:
        target = root / device.lstrip("/")
        _place(Path(device), target)
        _mount(device, str(target), None, _BIND)
    for hidden in job["hidden"]:
        _mount("tmpfs", str(root / hidden.lstrip("/")), "tmpfs", _READ_ONLY, "size=4k,nr_inodes=2")
    scratch, size = job["scratch"]
    inside = root / scratch.lstrip("/")
    inside.mkdir()
    _mount("tmpfs", str(inside), "tmpfs", _NO_SETUID | _NO_DEVICES, f"size={size},nr_inodes=4096,mode=700")
    _mount("none", str(root), None, _BIND | _REMOUNT | _READ_ONLY | _NO_SETUID | _NO_DEVICES)
    os.chdir(root)
    _call(_pivot_root, b".", b".")
    _call(_libc.umount2, b".", _DETACH)
    os.chdir(scratch)


def _place(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    name = kind.encode() if kind else None
    _call(_libc.mount, source.encode(), target.encode(), name, ctypes.c_ulong(flags), data.encode())


def _pivot_root(new: bytes, old: bytes) -> int:
    return _libc.syscall({"x86_64": 155, "aarch64": 41}[os.uname().machine], new, old)


def _drop_capabilities(last: int) -> None:
    _call(_libc.prctl, _PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0)
    for capability in range(last + 1):
        _call(_libc.prctl, _PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    _call(_libc.capset, header, (ctypes.c_uint32 * 6)())


def _die_with_parent() -> None:
    _call(_libc.prctl, _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _close_all() -> None:
    os.closerange(0, 1024)


def _leave(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _call(function: Any, *arguments: Any) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{getattr(function, '__name__', 'call')}: {os.strerror(number)}")
