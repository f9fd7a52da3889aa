"""What is handed to a fresh interpreter in a sandbox: code of this package and one job, in sealed memory."""

from __future__ import annotations

import fcntl
import marshal
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from io import FileIO
from pathlib import Path
from types import CodeType
from typing import Any

_PACKAGE = "pipeline.sandbox.inside"
_NEEDS = {
    "namespaces": (),
    "probe": ("jail",),
    "program": ("jail", "wire"),
    "tester": ("jail", "wire", "remote", "units"),
}
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

BOOTSTRAP = f"""
import marshal, os, sys, types
with open(int(sys.argv[1]), "rb") as file:
    modules, steps = marshal.load(file)
package = types.ModuleType("{_PACKAGE}")
sys.modules["{_PACKAGE}"] = package
for name, code in modules:
    module = types.ModuleType("{_PACKAGE}." + name)
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(code, module.__dict__)
del file, code, modules
if steps[0][1] == "enter":
    steps[0][2]["info"] = int(sys.argv[2])
else:
    try:
        os.close(int(sys.argv[2]))
    except OSError:
        pass
for name, call, job in steps:
    getattr(sys.modules["{_PACKAGE}." + name], call)(job)
"""
"""The interpreter's ``-c``; the project's files are not visible where it runs."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a module that runs inside.

    Attributes:
        module: of ``pipeline.sandbox.inside``.
        job: the call's argument; built-in types only.
        call: the function's name.
    """

    module: str
    job: dict[str, Any]
    call: str = field(default="main")


def pack(steps: Sequence[Step]) -> FileIO:
    """A file from which the bootstrap reads; nobody can write to it.

    Raises:
        OSError: no memory, or not Linux.
    """
    names = dict.fromkeys(name for step in steps for name in (*_NEEDS[step.module], step.module))
    content = marshal.dumps(
        ([(name, _compiled(name)) for name in names], [(step.module, step.call, step.job) for step in steps])
    )
    return sealed(content)


def sealed(content: bytes) -> FileIO:
    """A file in memory that holds ``content``, at its beginning, and can not be written any more."""
    file = FileIO(os.memfd_create("tallystream", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC), "r+")
    try:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
        file.seek(0)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        file.close()
        raise
    return file


@cache
def _compiled(name: str) -> CodeType:
    path = Path(__file__).with_name("inside") / f"{name}.py"
    return compile(path.read_text("utf-8"), f"<{name}>", "exec", dont_inherit=True)
