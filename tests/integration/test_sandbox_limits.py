"""What a program can not do to the machine that runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from pipeline.child_process import resident_bytes
from pipeline.errors import SandboxUnavailableError
from pipeline.fusion import CodeLimits, CodeReason, check_code
from pipeline.sandbox import boundary
from pipeline.sandbox.boundary import Way
from tests.integration.sandbox_ways import WAYS

pytestmark = pytest.mark.parametrize("way", WAYS)
MIB = 1024 * 1024
ADD = "def f(x): return x + 1"
TESTS = "assert f(1) == 2\nassert f(41) == 42"
ENDLESS = "while True: pass"
SHORT = CodeLimits(wall_seconds=1.5)


def children() -> set[int]:
    """Every child of this process, zombies too."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def test_an_endless_loop_is_ended_and_the_next_program_runs(way: Way) -> None:
    verdict = check_code(ENDLESS, TESTS, SHORT, way=way)
    assert (verdict.passed, verdict.reason, verdict.tests_passed) == (False, CodeReason.TIMEOUT, 0)
    assert verdict.seconds < SHORT.wall_seconds + 2
    assert check_code(ADD, TESTS, way=way).passed


def test_processor_time_ends_a_program_that_ignores_every_signal(way: Way) -> None:
    code = (
        "import signal\n"
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n" + ENDLESS
    )
    verdict = check_code(code, TESTS, CodeLimits(cpu_seconds=1, wall_seconds=300), way=way)
    assert (verdict.reason, verdict.message) == (CodeReason.TIMEOUT, "used more than 1 s of processor time")


def test_twenty_endless_programs_leave_no_child_behind(way: Way) -> None:
    before = children()
    for _ in range(20):
        assert check_code(ENDLESS, TESTS, CodeLimits(wall_seconds=0.2), way=way).reason is CodeReason.TIMEOUT
    assert children() <= before


def test_an_orphan_of_the_boundary_is_reaped_by_a_host_that_inherits_it(way: Way) -> None:
    # As when the host is the first process of a container, to which every orphan falls.
    script = (
        "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        "from pipeline.fusion import CodeLimits, check_code\n"
        "from pipeline.sandbox import Way\n"
        "for _ in range(3): check_code('while True: pass', 'assert f()', CodeLimits(wall_seconds=0.3), "
        f"way=Way({str(way)!r}))\n"
        "from tests.integration.test_sandbox_limits import children\n"
        "print(sorted(children()))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_too_much_memory_has_a_label_of_its_own_and_costs_the_host_nothing(way: Way) -> None:
    check_code(ADD, TESTS, way=way)
    before, most = resident_bytes(os.getpid()), 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, resident_bytes(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    verdict = check_code("x = bytearray(8 * 1024**3)", TESTS, way=way)
    done.set()
    watcher.join()
    assert verdict.reason is CodeReason.MEMORY
    assert most - before < 64 * MIB


@pytest.mark.parametrize(
    "code",
    [
        "kept = []\nwhile True: kept.append(bytearray(2**20))",
        "kept = []\ndef f(x):\n    while True: kept.append('a' * 99)",
    ],
    ids=["while-loaded", "in-a-call"],
)
def test_memory_taken_in_small_pieces_has_the_same_label(way: Way, code: str) -> None:
    assert check_code(code, TESTS, CodeLimits(memory_bytes=128 * MIB), way=way).reason is CodeReason.MEMORY


def test_output_cut_inside_a_character_is_still_text(way: Way) -> None:
    text = "你好🙂"
    for limit in range(100, 106):
        verdict = check_code(f"print({text!r} * 10000)", TESTS, CodeLimits(output_bytes=limit), way=way)
        assert (verdict.reason, verdict.truncated) == (CodeReason.OUTPUT, True)
        assert verdict.output.rstrip("\ufffd") in text * 10000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_without_end_is_ended_at_its_limit(way: Way, stream: str) -> None:
    code = f"import sys\nwhile True: print('ALL TESTS PASSED', file=sys.{stream})"
    verdict = check_code(code, TESTS, way=way)
    assert (verdict.passed, verdict.reason, verdict.truncated) == (False, CodeReason.OUTPUT, True)


def test_one_long_line_is_compared_whole_or_reported_as_too_long(way: Way) -> None:
    line = json.dumps({"text": "x" * 400_000})
    code, tests = (
        """print('{"text": "' + "x" * 400_000 + '"}')""",
        json.dumps([{"stdin": "", "stdout": line}]),
    )
    whole = check_code(code, tests, way=way)
    assert (whole.passed, whole.truncated) == (True, False)
    cut = check_code(code, tests, CodeLimits(output_bytes=160_000), way=way)
    assert (cut.reason, cut.truncated) == (CodeReason.OUTPUT, True)


@pytest.mark.parametrize("call", ["os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os.killpg(0, 9)"])
def test_killing_around_hits_nobody_outside(way: Way, call: str) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        verdict = check_code(f"import os\n{call}\nos.kill(os.getpid(), 9)", TESTS, way=way)
        assert (verdict.passed, verdict.reason) == (False, CodeReason.ERROR)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_open_found_by_introspection_writes_nowhere_outside(way: Way, tmp_path: Path) -> None:
    target = tmp_path / "escaped"
    code = (
        "kinds = [().__class__.__base__]\n"
        "for kind in kinds: kinds += type.__subclasses__(kind)\n"
        "opener = next(kind for kind in kinds if kind.__name__ == 'FileIO')\n"
        f"opener({str(target)!r}, 'w').write(b'x')\n"
    )
    verdict = check_code(code, TESTS, way=way)
    assert (verdict.passed, target.exists()) == (False, False)
    assert "FileNotFoundError" in verdict.message


def seen(way: Way, expression: str) -> object:
    """What an expression is inside."""
    code = f"import os, json\nprint(json.dumps({expression}))"
    verdict = check_code(code, json.dumps([{"stdin": "", "stdout": "?"}]), way=way)
    assert verdict.reason is CodeReason.WRONG_ANSWER, verdict.message
    return json.loads(verdict.output)


def test_a_program_sees_no_environment_no_project_and_no_files_of_anybody(way: Way) -> None:
    secret = Path(__file__).parent / f"secret-{uuid.uuid4().hex}"
    secret.write_text("x")
    os.environ["TALLYSTREAM_WEBHOOK_SECRET_TEST"] = "x"
    try:
        assert seen(way, "dict(os.environ)") == {}
        paths = [
            str(secret),
            "/proc/self",
            "/etc/passwd",
            "/etc/shadow",
            "/home",
            "/var",
            str(Path.cwd()),
            sys.prefix,
        ]
        assert seen(way, f"[path for path in {paths!r} if os.path.exists(path)]") == []
    finally:
        secret.unlink()
        del os.environ["TALLYSTREAM_WEBHOOK_SECRET_TEST"]
    libraries = "[path for path in sys.path if 'site-packages' in path and os.listdir(path)]"
    assert seen(way, f"(lambda sys: {libraries})(__import__('sys'))") == []


def test_a_program_holds_its_streams_and_one_channel_and_nothing_else(way: Way) -> None:
    code = (
        "import fcntl\ndef held():\n    found = []\n    for number in range(64):\n        try:\n"
        "            fcntl.fcntl(number, fcntl.F_GETFD)\n            found.append(number)\n"
        "        except OSError:\n            pass\n    return found"
    )
    assert check_code(code, "assert held()[:3] == [0, 1, 2]\nassert len(held()) == 4", way=way).passed


@pytest.mark.parametrize(
    "code",
    [
        "import os\nwhile True: os.fork()",
        "import subprocess\nsubprocess.run(['/bin/true'])",
        "import socket\nsocket.create_connection(('127.0.0.1', 80))",
        "import os, sys\nos.execv(sys.executable, ['x'])",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.ptrace(0, 0, 0, 0): raise PermissionError(1, 'ptrace')",
    ],
    ids=["fork-bomb", "program", "socket", "exec", "ptrace"],
)
def test_what_the_kernel_refuses_is_called_forbidden(way: Way, code: str) -> None:
    assert check_code(code, TESTS, way=way).reason is CodeReason.FORBIDDEN


def test_files_end_with_the_program_and_stay_in_the_scratch_folder(way: Way) -> None:
    name = f"{uuid.uuid4().hex}"
    code = f"open('/tmp/{name}', 'w').write('1')\ndef f(x): return x + len(open('/tmp/{name}').read())"
    assert check_code(code, TESTS, way=way).passed
    assert not (Path("/tmp") / name).exists()
    links = "import os\nos.symlink('/etc/shadow', '/tmp/a')\nopen('/tmp/a').read()"
    assert "FileNotFoundError" in check_code(links, TESTS, way=way).message
    written = "open('/usr/lib/x', 'w')"
    assert check_code(written, TESTS, way=way).reason is CodeReason.FORBIDDEN


@pytest.mark.parametrize("name", ["'/tmp/x'", "f'/tmp/{len(kept)}'"], ids=["one-file", "many-files"])
def test_the_disk_is_bounded(way: Way, name: str) -> None:
    code = f"kept = []\nwhile True:\n    kept.append(0)\n    open({name}, 'ab').write(bytes(65536))"
    verdict = check_code(code, TESTS, CodeLimits(file_bytes=4 * MIB), way=way)
    assert verdict.reason is CodeReason.ERROR
    assert "File too large" in verdict.message or "No space left" in verdict.message


def test_a_process_that_would_outlive_its_parent_is_gone(way: Way) -> None:
    marker = f"program-{uuid.uuid4().hex}"
    code = (
        f"import threading, time\nmarker = {marker!r}\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
        + ADD
    )
    before = children()
    assert check_code(code, TESTS, way=way).passed
    assert children() <= before


def test_when_no_way_works_nothing_runs_and_the_error_says_what_to_do(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundary, "failure", lambda way: "not allowed")
    boundary.available.cache_clear()
    try:
        with pytest.raises(SandboxUnavailableError, match=r"not allowed.*Install bubblewrap"):
            check_code(ADD, TESTS)
    finally:
        boundary.available.cache_clear()
