"""Java programs, brought once by Maven and kept."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from pipeline.child_process import last_lines
from pipeline.errors import DependencyDownError, MissingDependencyError
from pipeline.run_folder import locked

Say = Callable[[str], None]

_DEBIAN_PACKAGES = {"java": "openjdk-17-jre-headless", "mvn": "maven"}
_NAMES = {"java": "Java 17 or later", "mvn": "Maven 3"}


def require(program: str) -> str:
    """The path of ``java`` or ``mvn``.

    Raises:
        MissingDependencyError: it is not installed; names what to install.
    """
    if found := shutil.which(program):
        return found
    raise MissingDependencyError(
        f"{_NAMES[program]} is needed and `{program}` is not on the PATH: "
        f"install it (Debian: apt-get install {_DEBIAN_PACKAGES[program]})"
    )


def fetch_jars(pom: Path, folder: Path, say: Say, note: str, *, goal: str = "copy-dependencies") -> Path:
    """What ``pom`` names, as files in one folder below ``folder``; fetched only if it is not there.

    Args:
        goal: of Maven's dependency plugin.
        note: said when something has to be fetched.

    Raises:
        MissingDependencyError: Maven is needed and not installed.
        DependencyDownError: Maven could not bring it.
    """
    target = folder / f"jars-{zlib.crc32(pom.read_bytes()):08x}"
    if target.is_dir():
        return target
    mvn = require("mvn")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):
        if not target.is_dir():
            say(note)
            # Renamed when complete, so a killed download is never taken for a whole one.
            partial = Path(mkdtemp(prefix="partial-", dir=folder))
            try:
                _run_maven(mvn, pom, goal, partial)
                partial.rename(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return target


def _run_maven(mvn: str, pom: Path, goal: str, target: Path) -> None:
    log = target.with_suffix(".log")
    command = [mvn, "-q", "-B", "-f", str(pom), f"dependency:{goal}", f"-DoutputDirectory={target}"]
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
            )
        if done.returncode:
            raise DependencyDownError(f"Maven could not fetch what {pom} names:\n{last_lines(log, 8)}")
    finally:
        log.unlink(missing_ok=True)
