"""A request's window: what has come of it, and what is to be published of it. Pure: time is passed in."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.events import (
    ErrorInfo,
    FinishReason,
    HopTimings,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    Status,
    Usage,
)
from pipeline.fusion import Verdict, VoteOptions, VotePolicy, decided, vote

WindowKey = tuple[str, int]
"""Request id and run."""


@dataclass(slots=True)
class Window:
    """What is known of one run of a request.

    Attributes:
        opened: the marker; a sample that overtook it waits for it.
        samples: by index; the first one that came counts.
        closed_at: ms when the final result was published; such a window only remembers that.
        first_published: the first answer (revision 0 of mode deep) is out.
        options: how the operator wants votes weighed.
    """

    opened: Opened | None = None
    samples: dict[int, Sample] = field(default_factory=dict[int, Sample])
    closed_at: int | None = None
    first_published: bool = False
    options: VoteOptions = field(default_factory=VoteOptions)

    def add(self, sample: Sample) -> bool:
        """Take a sample in; ``False`` when it is late or came before."""
        if self.closed_at is not None or sample.sample_index in self.samples:
            return False
        self.samples[sample.sample_index] = sample
        return True

    def close(self, now: int) -> None:
        """Keep only that it is closed."""
        self.closed_at, self.opened = now, None
        self.samples.clear()

    def verdict(self) -> Verdict | None:
        """The vote as it stands."""
        if self.opened is None:
            return None
        return vote(list(self.samples.values()), self._policy(self.opened))

    def settle(self, now: int) -> list[Result]:
        """What is to be published now, oldest revision first. The last one may be final."""
        if self.opened is None or self.closed_at is not None:
            return []
        results: list[Result] = []
        opened, samples = self.opened, list(self.samples.values())
        first = next((sample for sample in samples if sample.role is Role.FIRST), None)
        if first is not None and not self.first_published and first.error is None:
            verdict = vote([first], self._policy(opened))
            if verdict.answer is not None:
                results.append(_result(opened, [first], verdict, now, Status.FIRST_ANSWER, None, revision=0))
        final = self._final(opened, samples, now)
        return [*results, final] if final else results

    def _policy(self, opened: Opened) -> VotePolicy:
        return VotePolicy.for_mode(opened.mode, opened.kind, self.options)

    def _final(self, opened: Opened, samples: Sequence[Sample], now: int) -> Result | None:
        revision = 1 if opened.mode is Mode.DEEP else 0
        if opened.error is not None:
            verdict = vote(samples, self._policy(opened))
            return _result(opened, samples, verdict, now, Status.FAILED, opened.error, revision)
        complete = len(samples) >= opened.expected
        overdue = now >= opened.deadline_at
        if not (complete or overdue or decided(samples, opened.expected, self._policy(opened))):
            return None
        verdict = vote(samples, self._policy(opened))
        status, error = _outcome(opened, samples, verdict, early=overdue and not complete)
        return _result(opened, samples, verdict, now, status, error, revision)


class WindowBook:
    """The windows of one shard, and which of them time asks for, without looking at all of them."""

    def __init__(self, windows: Mapping[WindowKey, Window], options: VoteOptions | None = None) -> None:
        self._windows = dict(windows)
        self._options = options or VoteOptions()
        for window in self._windows.values():
            window.options = self._options
        self._openings: list[tuple[int, WindowKey]] = []
        self._deadlines: list[tuple[int, WindowKey]] = []
        self._closed: list[tuple[int, WindowKey]] = []
        self._orphans: list[tuple[int, WindowKey]] = []
        for key in self._windows:
            self.watch(key)

    def __getitem__(self, key: WindowKey) -> Window:
        """The window of a key, made when it is new."""
        return self._windows.setdefault(key, Window(options=self._options))

    def __len__(self) -> int:
        return len(self._windows)

    def watch(self, key: WindowKey) -> None:
        """Note when time next asks for this window; call it after opening and after closing it."""
        window = self._windows[key]
        if window.closed_at is not None:
            heapq.heappush(self._closed, (window.closed_at, key))
        elif window.opened is not None:
            heapq.heappush(self._openings, (window.opened.opened_at, key))
            heapq.heappush(self._deadlines, (window.opened.deadline_at, key))

    def watch_orphan(self, key: WindowKey, now: int) -> None:
        """Note that a sample came without its marker: a foreign one, or one that is very late."""
        heapq.heappush(self._orphans, (now, key))

    def earliest(self) -> int | None:
        """The earliest opening of a window that is open, in ms."""
        while self._openings and not self._is_open(self._openings[0][1]):
            heapq.heappop(self._openings)
        return self._openings[0][0] if self._openings else None

    def overdue(self, now: int) -> list[WindowKey]:
        """Open windows whose deadline has come; each is named once."""
        due: list[WindowKey] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, key = heapq.heappop(self._deadlines)
            if key in self._windows and self._windows[key].closed_at is None:
                due.append(key)
        return due

    def _is_open(self, key: WindowKey) -> bool:
        window = self._windows.get(key)
        return window is not None and window.opened is not None

    def forget(self, before: int) -> list[tuple[WindowKey, Window]]:
        """Drop windows that closed, or waited in vain for their marker, since before a time."""
        gone: list[tuple[WindowKey, Window]] = []
        for heap in (self._closed, self._orphans):
            while heap and heap[0][0] < before:
                _, key = heapq.heappop(heap)
                window = self._windows.get(key)
                if window is not None and window.opened is None:
                    gone.append((key, self._windows.pop(key)))
        return gone


def is_final(result: Result) -> bool:
    return result.status.terminal


def _outcome(
    opened: Opened, samples: Sequence[Sample], verdict: Verdict, *, early: bool
) -> tuple[Status, ErrorInfo | None]:
    if verdict.answer is not None:
        return (Status.PARTIAL_DONE if early else Status.DONE), None
    errors = [sample.error for sample in sorted(samples, key=lambda s: s.sample_index) if sample.error]
    if early:
        late = f"{len(samples)} of {opened.expected} samples came before the deadline, none with an answer"
        return Status.FAILED, ErrorInfo("deadline_exceeded", late, retriable=True)
    if errors and len(errors) == len(samples):
        return Status.FAILED, errors[0]
    if samples and all(sample.finish_reason is FinishReason.LENGTH for sample in samples):
        cut = "every sample reached its token limit before an answer; raise sampling.max_new_tokens"
        return Status.FAILED, ErrorInfo("cut_short", cut)
    return Status.FAILED, ErrorInfo("no_answer", f"none of {len(samples)} samples holds an answer")


def _result(
    opened: Opened,
    samples: Sequence[Sample],
    verdict: Verdict,
    now: int,
    status: Status,
    error: ErrorInfo | None,
    revision: int,
) -> Result:
    finished = [sample.timings.finished_at for sample in samples]
    return Result(
        request_id=opened.request_id,
        run=opened.run,
        revision=revision,
        status=status,
        tenant=opened.tenant,
        priority=opened.priority,
        mode=opened.mode,
        kind=opened.kind,
        answer=verdict.answer,
        chosen_sample=verdict.chosen_sample,
        confidence=verdict.confidence,
        votes=verdict.votes,
        reasoning=verdict.reasoning,
        usage=Usage(
            prompt_tokens=sum(sample.prompt_tokens for sample in samples),
            completion_tokens=sum(sample.completion_tokens for sample in samples),
            saved_tokens=0,
            samples_expected=opened.expected,
            samples_used=sum(vote.count for vote in verdict.votes),
        ),
        timings=HopTimings(
            created_at=opened.created_at,
            opened_at=opened.opened_at,
            first_sample_at=min(finished, default=None),
            last_sample_at=max(finished, default=None),
            finished_at=now,
        ),
        error=error,
        callback=opened.callback,
        metadata=opened.metadata,
    )
