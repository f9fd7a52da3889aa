"""The two ways to draw a boundary around a process, and which one works here."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
from dataclasses import asdict
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from pipeline.errors import SandboxUnavailableError
from pipeline.fusion.code_verdict import CodeLimits
from pipeline.sandbox.bundle import Step
from pipeline.sandbox.layout import DEVICES, SCRATCH, layout
from pipeline.sandbox.process import Confined

_PROBE_SECONDS = 20.0
_PYTHON = ("-s", "-S", "-B", "-P", "-X", "utf8")


class Way(StrEnum):
    """How a boundary is drawn; the first that works is taken."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"


def start(
    way: Way, step: Step, descriptors: tuple[int, ...], limits: CodeLimits, **streams: int | None
) -> Confined:
    """Start one step in a sandbox of its own.

    Args:
        descriptors: kept open inside, under the same numbers.
        streams: ``stdin``, ``stdout`` and ``stderr``; the null device when left out.

    Raises:
        OSError: it can not be started.
    """
    place = layout()
    python = [place.interpreter, *_PYTHON]
    if way is Way.BUBBLEWRAP:
        return Confined([*_bubblewrap(limits), "--", *python], [step], descriptors, info_flag=True, **streams)
    outer = Step(
        "namespaces",
        {
            "root": _empty_folder(),
            "binds": place.binds,
            "hidden": place.hidden,
            "devices": DEVICES,
            "scratch": (SCRATCH, limits.file_bytes),
        },
        call="enter",
    )
    return Confined(python, [outer, step], descriptors, info_flag=False, **streams)


def _bubblewrap(limits: CodeLimits) -> list[str]:
    place = layout()
    command = [
        shutil.which("bwrap") or "bwrap",
        *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"),
        *(
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--clearenv",
            "--setenv",
            "PYTHONHASHSEED",
            "0",
        ),
    ]
    for path in place.binds:
        command += ["--ro-bind", path, path]
    for path in place.hidden:
        command += ["--tmpfs", path, "--remount-ro", path]
    for path in DEVICES:
        command += ["--dev-bind", path, path]
    command += ["--size", str(limits.file_bytes), "--tmpfs", SCRATCH, "--chdir", SCRATCH]
    return [*command, "--remount-ro", "/"]


@lru_cache(maxsize=1)
def _empty_folder() -> str:
    # Only a place to mount on, in a namespace of its own: nothing is ever written to it.
    folder = Path(tempfile.gettempdir()) / f"tallystream-root-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


@lru_cache(maxsize=1)
def available() -> Way:
    """The first way that works on this machine, tried once for a process.

    Raises:
        SandboxUnavailableError: none does; says why for each.
    """
    failures = {way: why for way in Way if (why := failure(way))}
    for way in Way:
        if way not in failures:
            return way
    told = "; ".join(f"{way}: {why}" for way, why in failures.items())
    raise SandboxUnavailableError(
        f"no sandbox for programs on this machine ({told}). Install bubblewrap (Debian: apt-get install bubblewrap), "
        "or allow user namespaces (sysctl user.max_user_namespaces, and in a container the calls unshare and mount)"
    )


@lru_cache(maxsize=len(Way))
def failure(way: Way) -> str | None:
    """Why a way does not work here, ``None`` when it does."""
    if way is Way.BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bwrap is not installed"
    if not hasattr(os, "memfd_create"):
        return "needs Linux"
    limits = CodeLimits()
    read, write = os.pipe()
    errors, errors_write = os.pipe()
    try:
        job = {"limits": asdict(limits), "report": write, "outside": __file__}
        try:
            confined = start(way, Step("probe", job), (write,), limits, stderr=errors_write)
        except OSError as error:
            return str(error)
        finally:
            os.close(write)
            os.close(errors_write)
        ready, _, _ = select.select([read], [], [], _PROBE_SECONDS)
        said = os.read(read, 4096).decode(errors="replace") if ready else "it does not answer"
        confined.end()
        if said:
            return None if said == "holds" else said
        lines = os.read(errors, 65536).decode(errors="replace").strip().splitlines()
        return (lines[-1] if lines else "it ended without a word")[:300]
    finally:
        os.close(read)
        os.close(errors)
