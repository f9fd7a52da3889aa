"""A real Apache Kafka on this machine, from its Maven jars, without a container engine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.child_process import Child, last_lines, resident_bytes, signal_group, spawn, stop
from pipeline.errors import BrokerDownError, ConfigError
from pipeline.free_ports import free_ports, is_free
from pipeline.jars import require
from pipeline.kafka.broker_config import Node, write_properties
from pipeline.kafka.clients import base_config
from pipeline.kafka.fencing_start import fence_old_broker
from pipeline.kafka.kafka_jars import KAFKA_VERSION, class_archive, kafka_jars
from pipeline.kafka.reach import unreached
from pipeline.run_folder import RunFolder
from pipeline.settings import Security, Settings

START_SECONDS = 90.0
STOP_SECONDS = 30.0
TOOL_SECONDS = 60.0
REACH_SECONDS = 10.0
_PORT_ATTEMPTS = 3
_LOG_LINES = 20
_TOLD = 2_000

# Measured on two shared cores: the C1 compiler alone halves the CPU of a start, and the serial collector has the
# fewest threads.
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_HEAP = ("-Xms256m", "-Xmx512m")
# Warnings only: the end of the log of a failed start is then its cause, not the chatter of its end.
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)

Say = Callable[[str], None]


class LocalBroker:
    """Kafka in KRaft mode, of one node or three; a context manager.

    Listens on free ports of 127.0.0.1, found at the first start and kept until ``stop``, so a node that was killed
    comes back where its clients look for it. Dies with this process, whatever ends it.

    Args:
        home: where the jars are kept and the data folder is made.
        nodes: 1, or 3 for a cluster that survives the loss of one.
        data: keep the data (and the ports) in this folder between runs; without it the data ends with ``stop``.
        jvm: further options of each node's Java.
        properties: further ones of each node, as ``write_properties`` takes them.

    Attributes:
        bootstrap: what clients connect to, while it runs.
        pids: the Java process of each running node, by node id (from 1).
    """

    def __init__(
        self,
        home: Path,
        *,
        nodes: int = 1,
        data: Path | None = None,
        jvm: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        say: Say = lambda _: None,
    ) -> None:
        self._home = home
        self._count = nodes
        self._kept = data
        self._jvm = jvm
        self._properties = properties
        self._say = say
        self._run_folder: RunFolder | None = None
        self._nodes: tuple[Node, ...] = ()
        self._children: dict[int, Child] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self._nodes)

    @property
    def folder(self) -> Path | None:
        """Where data and logs (``node-N/kafka.log``) are, while it runs."""
        return self._run_folder.path if self._run_folder else self._kept

    @property
    def logs(self) -> dict[int, Path]:
        """The log of each node, by node id, while it runs."""
        return {node.id: node.log for node in self._nodes}

    @property
    def pids(self) -> dict[int, int]:
        return {number: child.pid for number, child in self._children.items() if child.poll() is None}

    @property
    def resident_bytes(self) -> int:
        """Resident memory of all nodes together."""
        return sum(resident_bytes(pid) for pid in self.pids.values())

    def start(self) -> None:
        """Start every node that does not run and wait until all of them serve.

        Raises:
            MissingDependencyError: Java or Maven is not installed.
            BrokerDownError: Kafka does not start; carries the last lines of its log.
        """
        began = time.monotonic()
        command = self._java()
        if self._nodes:
            self._start_nodes(command)
        else:
            self._start_first(command)
        self._say(f"Kafka ready on {self.bootstrap} in {time.monotonic() - began:.1f} s")

    def kill(self, node: int = 1) -> None:
        """``kill -9`` one node, as a crash would; ``start`` brings it back with its data and port."""
        child = self._children.pop(node)
        signal_group(child, signal.SIGKILL)
        child.wait()

    def tool(self, name: str, *arguments: str) -> str:
        """Run one of Kafka's own tools to its end and return what it printed.

        Args:
            name: its Java class.

        Raises:
            BrokerDownError: it did not succeed; carries the end of what it said.
        """
        try:
            done = subprocess.run(
                [*self._java(), name, *arguments],
                check=False,
                capture_output=True,
                text=True,
                timeout=TOOL_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerDownError(f"Kafka's {name} did not end within {TOOL_SECONDS:.0f} s") from error
        if done.returncode:
            raise BrokerDownError(f"Kafka's {name} failed: {(done.stderr or done.stdout)[-_TOLD:]}")
        return done.stdout

    def stop(self) -> None:
        """Stop every node cleanly and remove the data, unless it was to be kept; a second call does nothing."""
        for child in self._children.values():
            signal_group(child, signal.SIGTERM)
        for child in self._children.values():
            stop(child, STOP_SECONDS)
        self._children.clear()
        self._nodes = ()
        if self._run_folder:
            self._run_folder.remove()
            self._run_folder = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _java(self) -> list[str]:
        """Java with its options and Kafka's class path.

        Raises:
            MissingDependencyError: Java or Maven is not installed.
        """
        java = require("java")
        jars = kafka_jars(self._home, self._say)
        archive = class_archive(jars)
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        return [java, *_JVM, *shared, *_LOGGING, "-cp", f"{jars}/*"]

    def _start_first(self, command: list[str]) -> None:
        """Choose folder and ports and start; on other ports again if somebody else was quicker to take one."""
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            self._nodes = self._lay_out()
            try:
                self._start_nodes(command)
                return
            except BaseException as error:
                lost_race = isinstance(error, BrokerDownError) and "BindException" in error.message
                self.stop()
                if not lost_race or not attempts_left:
                    raise

    def _lay_out(self) -> tuple[Node, ...]:
        """Choose the folder and the ports, and write each node's settings."""
        if self._kept:
            root = self._kept
            root.mkdir(parents=True, exist_ok=True)
        else:
            self._run_folder = RunFolder(self._home, "kafka")
            root = self._run_folder.path
        ports = _ports(root / "ports.json", 2 * self._count)
        nodes = tuple(
            Node(number, ports[2 * number - 2], ports[2 * number - 1], root / f"node-{number}")
            for number in range(1, self._count + 1)
        )
        for node in nodes:
            node.folder.mkdir(exist_ok=True)
            write_properties(node, nodes, self._properties)
        return nodes

    def _start_nodes(self, command: list[str]) -> None:
        self._format(command)
        for node in self._nodes:
            child = self._children.get(node.id)
            if child is None or child.poll() is not None:
                if self._count == 1 and node.crashed:
                    fence_old_broker(node, command)
                self._children[node.id] = spawn(
                    [*command, *_HEAP, *self._jvm, "kafka.Kafka", str(node.properties)], node.log
                )
        deadline = time.monotonic() + START_SECONDS
        while not _serves(self.bootstrap, self._count):
            for node in self._nodes:
                if self._children[node.id].poll() is not None:
                    raise BrokerDownError(f"Kafka does not start; the end of its log:\n{_tail(node)}")
            if time.monotonic() > deadline:
                raise BrokerDownError(
                    f"Kafka does not serve within {START_SECONDS:.0f} s; the end of its log:\n{_tail(self._nodes[0])}"
                )

    def _format(self, command: list[str]) -> None:
        """Give each new data folder the same cluster id."""
        new = [node for node in self._nodes if not (node.data / "meta.properties").exists()]
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # An id may begin with a dash, which alone would be an option.
        tool = [*command, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c"]
        formatting = [(node, spawn([*tool, str(node.properties)], node.log)) for node in new]
        for node, child in formatting:
            if child.wait():
                raise BrokerDownError(f"Kafka can not prepare its data folder:\n{_tail(node)}")


@contextmanager
def choose_broker(settings: Settings, say: Say) -> Generator[str]:
    """The Kafka to use: the one that ``TALLYSTREAM_BOOTSTRAP`` names, else a local one for as long as the block runs.

    Raises:
        BrokerDownError: it does not answer or does not start.
        MissingDependencyError: a local one is needed and Java or Maven is not installed.
        ConfigError: the settings of its security are wrong.
    """
    with ExitStack() as stack:
        if settings.bootstrap:
            say(f"broker: {settings.bootstrap} (TALLYSTREAM_BOOTSTRAP)")
            bootstrap = settings.bootstrap
            if (why := unreached(base_config(settings), 1, REACH_SECONDS)) is not None:
                raise BrokerDownError(
                    f"no Kafka answers at {bootstrap} (TALLYSTREAM_BOOTSTRAP) within {REACH_SECONDS:.0f} s: {why}"
                )
        else:
            if settings.kafka.security is not Security.PLAINTEXT:
                raise ConfigError(
                    "TALLYSTREAM_KAFKA__SECURITY is for the Kafka that TALLYSTREAM_BOOTSTRAP names, and it names none"
                )
            say(
                f"broker: a local Apache Kafka {KAFKA_VERSION} from its jars (TALLYSTREAM_BOOTSTRAP is not set)"
            )
            bootstrap = stack.enter_context(LocalBroker(settings.home, say=say)).bootstrap
        yield bootstrap


def _serves(bootstrap: str, brokers: int) -> bool:
    """Whether so many brokers are up; takes a moment when not."""
    for address in bootstrap.split(","):
        host, port = address.rsplit(":", 1)
        try:
            # librdkafka backs off after a refused connection: knock cheaply until somebody opens.
            socket.create_connection((host, int(port)), timeout=0.1).close()
        except OSError:
            time.sleep(0.05)
            return False
    return unreached({"bootstrap.servers": bootstrap}, brokers, 2.0) is None


def _ports(file: Path, count: int) -> list[int]:
    """Free ports, remembered next to kept data so that its clients find it again."""
    try:
        remembered: list[int] = json.loads(file.read_text())
    except FileNotFoundError:
        remembered = []
    if len(remembered) == count and all(is_free(port) for port in remembered):
        return remembered
    ports = free_ports(count)
    file.write_text(json.dumps(ports))
    return ports


def _tail(node: Node) -> str:
    return last_lines(node.log, _LOG_LINES)
