"""A real schema registry on this machine: Apicurio, in memory, from its Maven artifact."""

from __future__ import annotations

import shutil
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from pipeline.child_process import Child, last_lines, spawn, stop
from pipeline.errors import RegistryDownError
from pipeline.free_ports import free_ports
from pipeline.jars import fetch_jars, require
from pipeline.run_folder import RunFolder, locked

APICURIO_VERSION = "3.0.9"
_POM = Path(__file__).resolve().parents[2] / "ops" / "registry" / "pom.xml"

START_SECONDS = 120.0
STOP_SECONDS = 15.0
_PORT_ATTEMPTS = 3
_LOG_LINES = 20

_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Say = Callable[[str], None]


class LocalRegistry:
    """Apicurio on a free port of 127.0.0.1; a context manager. Its schemas end with it.

    Attributes:
        url: the root of its Confluent-compatible API, while it runs.
    """

    def __init__(self, home: Path, *, say: Say = lambda _: None) -> None:
        self._home = home
        self._say = say
        self._folder: RunFolder | None = None
        self._child: Child | None = None
        self.url = ""

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            MissingDependencyError: Java or Maven is not installed.
            RegistryDownError: it does not start; carries the last lines of its log.
        """
        began = time.monotonic()
        java = require("java")
        program = _program(self._home / "registry" / APICURIO_VERSION, self._say)
        self._folder = RunFolder(self._home, "registry")
        log = self._folder.path / "registry.log"
        try:
            for attempt in range(1, _PORT_ATTEMPTS + 1):
                try:
                    self._start_once(java, program, log)
                    break
                except RegistryDownError as error:
                    if attempt == _PORT_ATTEMPTS or "already in use" not in error.message:
                        raise
        except BaseException:
            self.stop()
            raise
        self._say(f"schema registry ready on {self.url} in {time.monotonic() - began:.1f} s")

    def stop(self) -> None:
        """Stop it and forget its schemas; a second call does nothing."""
        if self._child:
            stop(self._child, STOP_SECONDS)
            self._child = None
        if self._folder:
            self._folder.remove()
            self._folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_once(self, java: str, program: Path, log: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        env = {"QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": "127.0.0.1"}
        child = self._child = spawn([java, *_JVM, "-jar", str(program)], log, env=env, cwd=program.parent)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self.url):
            if child.poll() is not None:
                raise RegistryDownError(
                    f"the schema registry does not start; the end of its log:\n{last_lines(log, _LOG_LINES)}"
                )
            if time.monotonic() > deadline:
                raise RegistryDownError(f"the schema registry does not answer within {START_SECONDS:.0f} s")


def _program(folder: Path, say: Say) -> Path:
    """The unpacked program, kept between runs."""
    note = f"fetching Apicurio Registry {APICURIO_VERSION} (109 MB, once) …"
    jars = fetch_jars(_POM, folder, say, note, goal="copy")
    unpacked = folder / f"{jars.name}-unpacked"
    with locked(folder / ".lock"):
        if not unpacked.is_dir():
            partial = Path(mkdtemp(prefix="partial-", dir=folder))
            try:
                with tarfile.open(next(jars.glob("*.tar.gz"))) as archive:
                    archive.extractall(partial, filter="data")
                partial.rename(unpacked)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return next(unpacked.rglob("apicurio-registry-app-*-runner.jar"))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        time.sleep(0.1)
        return False
