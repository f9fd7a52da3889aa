"""The supervisor, with tiny real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import tests.eventually
from pipeline.supervisor import Exit, ProcessSpec, RestartPolicy, Supervisor

eventually = partial(tests.eventually.eventually, seconds=30.0)

QUICK = RestartPolicy(first_delay=0.01, most_delay=0.02, healthy_after=60.0, give_up_after=3)
WAITS = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print("child", child.pid, flush=True)
signal.pause()
"""


def python(name: str, code: str, **env: str) -> ProcessSpec:
    return ProcessSpec(name, (sys.executable, "-c", code), env)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Watching:
    """A supervisor's output and exits, gathered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.exits: list[Exit] = []

    def over(self, *specs: ProcessSpec, policy: RestartPolicy = QUICK, grace: float = 20.0) -> Supervisor:
        return Supervisor(
            specs, self.said.append, folder=self.folder, policy=policy, grace=grace, on_exit=self.exits.append
        )

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path / "logs")


def test_output_of_each_process_goes_to_its_log(watching: Watching) -> None:
    code = """
import os, signal, sys
print(os.environ["WORD"])
print("oops", file=sys.stderr, flush=True)
signal.pause()
"""
    with watching.over(
        python("one", code, WORD="first", PYTHONUNBUFFERED="1"),
        python("two", code, WORD="second", PYTHONUNBUFFERED="1"),
    ) as supervisor:
        eventually(lambda: "oops" in watching.log("one") and "oops" in watching.log("two"))
        assert set(supervisor.pids) == {"one", "two"}
    assert "first" in watching.log("one")
    assert "second" in watching.log("two")
    assert "second" not in watching.log("one")


def test_a_killed_process_is_started_again(watching: Watching) -> None:
    with watching.over(python("worker", WAITS), python("other", WAITS)) as supervisor:
        eventually(lambda: "up" in watching.log("worker") and "up" in watching.log("other"))
        first, other = supervisor.pids["worker"], supervisor.pids["other"]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: watching.log("worker").count("up") == 2)
        worker = next(state for state in supervisor.states if state.name == "worker")
        assert worker.restarts == 1
        assert worker.pid not in {None, first}
        assert worker.resident_bytes > 1_000_000
        assert supervisor.pids["other"] == other
    assert [(each.name, each.pid, each.status) for each in watching.exits] == [
        ("worker", first, -signal.SIGKILL)
    ]
    assert "worker ended by SIGKILL" in watching.said[0]


def test_what_keeps_failing_is_given_up_and_says_why(watching: Watching) -> None:
    with watching.over(
        python("bad", "raise SystemExit('no model here')"), python("good", WAITS)
    ) as supervisor:
        eventually(lambda: supervisor.failed)
        assert supervisor.failed == "bad"
        eventually(lambda: "good" in supervisor.pids)
        eventually(lambda: len(watching.exits) == QUICK.give_up_after)
        assert "bad" not in supervisor.pids
    assert "given up" in watching.said[-1]
    assert "no model here" in watching.said[-1]
    assert watching.log("bad").count("no model here") == QUICK.give_up_after


def test_a_healthy_time_forgives_earlier_failures(watching: Watching) -> None:
    forgiving = RestartPolicy(first_delay=0.0, healthy_after=0.0, give_up_after=2)
    with watching.over(python("brief", "pass"), policy=forgiving) as supervisor:
        eventually(lambda: supervisor.states[0].restarts > forgiving.give_up_after)
        assert not supervisor.failed


def test_delays_grow_and_are_bounded() -> None:
    policy = RestartPolicy(first_delay=1.0, factor=3.0, most_delay=10.0)
    assert [policy.delay(failures) for failures in (1, 2, 3, 4)] == [1.0, 3.0, 9.0, 10.0]


def test_stop_lets_processes_end_by_themselves(watching: Watching) -> None:
    code = """
import signal
def end(*_):
    print("bye", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    signal.pause()
"""
    with watching.over(python("polite", code)) as supervisor:
        eventually(lambda: "up" in watching.log("polite"))
        pid = supervisor.pids["polite"]
    assert "bye" in watching.log("polite")
    assert not is_alive(pid)
    assert not watching.exits
    assert not supervisor.pids


def test_stop_kills_what_does_not_listen_and_its_children(watching: Watching) -> None:
    with watching.over(python("stubborn", STUBBORN), grace=0.1) as supervisor:
        eventually(lambda: watching.log("stubborn").endswith("\n"))
        pid, grandchild = supervisor.pids["stubborn"], int(watching.log("stubborn").split()[1])
        assert is_alive(grandchild)
    assert not is_alive(pid)
    eventually(lambda: not is_alive(grandchild))


def test_stop_during_a_long_backoff_returns_and_starts_nothing(watching: Watching) -> None:
    patient = RestartPolicy(first_delay=3600.0, most_delay=3600.0)
    with watching.over(python("bad", "raise SystemExit(3)"), policy=patient) as supervisor:
        eventually(lambda: watching.exits)
    assert supervisor.states[0].restarts == 0
    assert watching.exits[0].status == 3


def test_a_program_that_does_not_exist_is_given_up_at_once(watching: Watching) -> None:
    with watching.over(ProcessSpec("ghost", ("/no/such/program",))) as supervisor:
        eventually(lambda: watching.said)
        assert supervisor.failed == "ghost"
    assert "/no/such/program" in watching.said[0]


def test_children_do_not_share_the_terminal_session(watching: Watching) -> None:
    with watching.over(python("worker", WAITS)) as supervisor:
        eventually(lambda: "up" in watching.log("worker"))
        pid = supervisor.pids["worker"]
        assert os.getpgid(pid) == pid
        assert os.getsid(pid) != os.getsid(0)


async def test_it_works_beside_an_event_loop(watching: Watching) -> None:
    supervisor = watching.over(python("worker", WAITS))
    supervisor.start()
    await asyncio.to_thread(eventually, lambda: "up" in watching.log("worker"))
    await asyncio.to_thread(supervisor.stop)
    assert not supervisor.pids


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_no_orphan_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    code = f"""
import signal, sys, threading
from pathlib import Path
from pipeline.supervisor import ProcessSpec, Supervisor
spec = ProcessSpec("child", (sys.executable, "-c", "import os, signal; print(os.getpid(), flush=True); signal.pause()"))
supervisor = Supervisor([spec], print, folder=Path({str(tmp_path)!r}))
# Started by a thread that ends: only the end of the process may end the child.
thread = threading.Thread(target=supervisor.start)
thread.start()
thread.join()
signal.pause()
"""
    log = tmp_path / "child.log"
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        eventually(lambda: log.exists() and log.read_text().endswith("\n"))
        child = int(log.read_text())
        assert is_alive(child)
    finally:
        parent.kill()
        parent.wait()
    eventually(lambda: not is_alive(child))
