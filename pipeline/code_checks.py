"""Running the programs of a request's samples, beside the event loop and the votes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog

from pipeline.errors import InvalidRequestError, SandboxUnavailableError
from pipeline.events import Sample
from pipeline.fusion import CheckedProgram, CodeLimits, extract_program, own_tests
from pipeline.fusion.code_choice import ProgramChecks
from pipeline.fusion.code_tests import PythonTests, parse_tests
from pipeline.sandbox import check_all
from pipeline.settings import CodeSettings

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class ProgramChecker(Generic[K]):
    """Checks one request after the other on a thread of its own, so that neither deadlines nor other votes wait.

    Nothing of it is durable: after a crash the programs are run again. A sandbox ends with this process.
    """

    def __init__(self, settings: CodeSettings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="programs")
        self._running: dict[K, Future[ProgramChecks]] = {}

    def submit(self, key: K, samples: Sequence[Sample], tests: str | None) -> None:
        """Check a request's programs, once for a key until its outcome was taken."""
        if key not in self._running:
            self._running[key] = self._thread.submit(check_programs, samples, tests, self._settings)

    def done(self) -> Iterator[tuple[K, ProgramChecks]]:
        """Outcomes since the last call; an error of the checker itself is raised."""
        for key, future in list(self._running.items()):
            if future.done():
                del self._running[key]
                yield key, future.result()

    def close(self) -> None:
        """Begin no further check; the one that runs ends by its own limits."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def check_programs(samples: Sequence[Sample], tests: str | None, settings: CodeSettings) -> ProgramChecks:
    """Run each sample's program against the request's tests, or without any against those the samples wrote."""
    ordered = sorted(samples, key=lambda sample: sample.sample_index)
    try:
        entry = _entry(tests)
        programs = [
            (sample.sample_index, code)
            for sample in ordered
            if sample.error is None and (code := extract_program(sample.text, entry, sample.finish_reason))
        ]
        suite = tests or _own(ordered)
        if not programs or not suite:
            return ProgramChecks(note="no program was run: no sample holds a test" if programs else "")
        limits = CodeLimits(cpu_seconds=settings.cpu_seconds, wall_seconds=settings.wall_seconds)
        verdicts = check_all([(code, suite) for _, code in programs], limits, workers=settings.workers)
    except (SandboxUnavailableError, InvalidRequestError) as error:
        log.warning("programs were not run", code=error.code, error=error.message)
        return ProgramChecks(note=f"no program was run ({error.code}): the samples' agreement decided")
    return ProgramChecks(
        tuple(
            CheckedProgram(index, code, verdict.outcomes)
            for (index, code), verdict in zip(programs, verdicts, strict=True)
        ),
        given=tests is not None,
    )


def _entry(tests: str | None) -> str | None:
    if tests is None:
        return None
    form = parse_tests(tests)
    return form.entry if isinstance(form, PythonTests) else None


def _own(samples: Sequence[Sample]) -> str:
    """The assertions of all samples, each once."""
    return "\n".join(dict.fromkeys(test for sample in samples for test in own_tests(sample.text)))
