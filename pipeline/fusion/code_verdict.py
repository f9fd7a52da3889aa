"""What running a program against tests says, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MIB = 1024 * 1024


class CodeReason(StrEnum):
    """Why a program passed or not; the first failing test decides between the middle ones."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"
    NO_CODE = "no_code"


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """What one run of a program may use.

    Attributes:
        cpu_seconds: of processor time; whole seconds, as the kernel counts.
        wall_seconds: for all tests of a program together.
        memory_bytes: address space.
        processes: tasks; a program can start threads, but no process.
        output_bytes: of standard output, and as many of standard error, before the run is ended.
        file_bytes: size of one file, and of the scratch folder as a whole.
        open_files: descriptors.
    """

    cpu_seconds: int = 10
    wall_seconds: float = 20.0
    memory_bytes: int = 512 * MIB
    processes: int = 32
    output_bytes: int = MIB
    file_bytes: int = 16 * MIB
    open_files: int = 64

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")


@dataclass(frozen=True, slots=True)
class CodeVerdict:
    """One program, one set of tests.

    Attributes:
        passed: every test was reached and held.
        reason: why.
        outcomes: for every test, in the order of the tests, whether it held.
        message: one line for people, at most 300 characters; empty when passed.
        output: the beginning of what the program printed, at most 2,000 characters.
        truncated: the program printed more than its limit and was ended.
        seconds: of wall time; not compared, since it differs from run to run.
    """

    passed: bool
    reason: CodeReason
    outcomes: tuple[bool, ...] = ()
    message: str = ""
    output: str = ""
    truncated: bool = False
    seconds: float = 0.0

    @property
    def tests_total(self) -> int:
        """Tests that there are, reached or not."""
        return len(self.outcomes)

    @property
    def tests_passed(self) -> int:
        """Tests that held."""
        return sum(self.outcomes)

    @property
    def tests_failed(self) -> int:
        """Tests that did not hold or were not reached."""
        return self.tests_total - self.tests_passed
