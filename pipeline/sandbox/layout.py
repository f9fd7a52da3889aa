"""The files that a sandbox sees: the interpreter, its standard library and the shared libraries they load."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

SCRATCH = "/tmp"
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths are the same inside and outside.

    Attributes:
        interpreter: the real executable, not a virtual environment's link.
        binds: files and folders, all read-only.
        hidden: folders inside ``binds`` that are shown empty.
    """

    interpreter: str
    binds: tuple[str, ...]
    hidden: tuple[str, ...]


@lru_cache(maxsize=1)
def layout() -> Layout:
    """Of the interpreter that runs this."""
    interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix}
    base["installed_platbase"] = sys.base_exec_prefix
    library = {os.path.realpath(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")}
    folder = sysconfig.get_config_var("LIBDIR") or "/nonexistent"
    shared = map(str, Path(folder).glob("libpython*.so*"))
    paths = {interpreter, *library, *shared, *_system_libraries(), "/etc/ld.so.cache"}
    hidden = [f"{path}/{name}" for path in sorted(library) for name in ("site-packages", "dist-packages")]
    return Layout(
        interpreter,
        tuple(sorted(path for path in paths if Path(path).exists())),
        tuple(path for path in hidden if Path(path).is_dir()),
    )


def _system_libraries() -> list[str]:
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    if triplet and Path(f"/usr/lib/{triplet}").is_dir():
        return [f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", *map(str, Path("/lib").glob("ld-*.so*"))]
    return ["/lib", "/lib64", "/usr/lib", "/usr/lib64"]
