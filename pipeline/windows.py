"""A request's window: what has come of it, and what is to be published of it. Pure: time is passed in."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.events import (
    ErrorInfo,
    FinishReason,
    HopTimings,
    Kind,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    Status,
    Usage,
)
from pipeline.fusion import Verdict, VoteOptions, VotePolicy, decided, vote
from pipeline.fusion.clarify import clarifying_question
from pipeline.fusion.code_choice import ProgramChecks, choose_program
from pipeline.language import Language
from pipeline.scheduling.review_round import Round, plan_round
from pipeline.scheduling.states import moved

WindowKey = tuple[str, int]
"""Request id and run."""

_NOT_RUN = ProgramChecks(note="no program was run in time: the samples' agreement decided")


def without_logprobs(sample: Sample) -> Sample:
    """The sample as a vote needs it: by token its log-probabilities are for whoever reads the topic, and large."""
    return sample if sample.logprobs is None else replace(sample, logprobs=None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A review round that was asked for: how many samples it has, and until when (ms) they are waited for."""

    count: int
    until: int

    @classmethod
    def of(cls, plan: Round) -> Asked:
        return cls(len(plan.pairs), plan.until)


@dataclass(frozen=True, slots=True)
class Cancel:
    """An order to cancel: what stands before it in the log still counts.

    Attributes:
        at: ms by the broker's clock; a deadline before that has ended the request first.
    """

    at: int
    reason: str = ""


@dataclass(slots=True)
class Window:
    """What is known of one run of a request.

    Attributes:
        opened: the marker; a sample that overtook it waits for it.
        samples: by index; the first one that came counts.
        state: of the request, as far as it is published.
        closed_at: ms when the final result was published; such a window only remembers that.
        cancelled: the order, until the window is closed; one that overtook its marker waits for it.
        asked: the review round, once its tasks are out.
        checks: what running its programs has shown, of kind code; found anew after a crash.
        options: how the operator wants votes weighed.
    """

    opened: Opened | None = None
    samples: dict[int, Sample] = field(default_factory=dict[int, Sample])
    state: Status = Status.PENDING
    closed_at: int | None = None
    cancelled: Cancel | None = None
    asked: Asked | None = None
    checks: ProgramChecks | None = None
    options: VoteOptions = field(default_factory=VoteOptions)

    def add(self, sample: Sample) -> bool:
        """Take a sample in; ``False`` when it is late or came before."""
        if not self._takes or sample.sample_index in self.samples:
            return False
        self.samples[sample.sample_index] = without_logprobs(sample)
        if self.state is Status.PENDING:
            self.state = moved(self.state, Status.RUNNING)
        return True

    def cancel(self, order: Cancel) -> bool:
        """Take no more samples; ``False`` when it has ended or was cancelled before."""
        if not self._takes:
            return False
        self.cancelled = order
        return True

    def published(self, result: Result, now: int) -> None:
        """Move on; of a window that is closed only that is kept."""
        self.state = moved(self.state, result.status)
        if is_final(result):
            self.closed_at, self.opened, self.asked, self.checks = now, None, None, None
            self.cancelled = None
            self.samples.clear()

    @property
    def noted_at(self) -> int:
        """When it was closed, or the order to cancel it was given (ms); 0: neither."""
        order = self.cancelled.at if self.cancelled is not None else 0
        return order if self.closed_at is None else self.closed_at

    def verdict(self) -> Verdict | None:
        """The vote as it stands."""
        if self.opened is None:
            return None
        return self._vote(self.opened)

    @property
    def outstanding(self) -> bool:
        """Samples are still being drawn, or wait to be."""
        reviews = self.asked.count if self.asked else 0
        return self.opened is not None and len(self.samples) < self.opened.expected + reviews

    def round(self, now: int) -> Round | None:
        """The review round that is to be asked for now: once, when all answers are in and do not agree.

        None is, when its reviews are here already, asked for by an owner that died before it could note that.
        """
        if self.opened is None or self.asked is not None or not self._complete(self.opened):
            return None
        policy = self._policy(self.opened)
        if policy.review is None:
            return None
        plan = plan_round(self.opened, vote(self._answers(), policy), policy, now)
        return None if plan is None or self._reviews >= len(plan.pairs) else plan

    @property
    def complete(self) -> bool:
        """All its answers are in, and it is open."""
        return self.opened is not None and self._complete(self.opened)

    @property
    def unchecked(self) -> bool:
        """It waits for its programs to be run."""
        opened = self.opened
        if opened is None or opened.kind is not Kind.CODE or opened.error is not None:
            return False
        return self.checks is None and self._complete(opened)

    def settle(self, now: int) -> list[Result]:
        """What is to be published now, oldest revision first. The last one may be final.

        Raises:
            IllegalMoveError: the request can not come to that.
        """
        if self.opened is None or self.closed_at is not None:
            return []
        results: list[Result] = []
        opened, samples = self.opened, list(self.samples.values())
        first = next((sample for sample in samples if sample.role is Role.FIRST), None)
        if first is not None and self.state is not Status.FIRST_ANSWER and first.error is None:
            verdict = vote([first], self._policy(opened))
            if verdict.answer is not None:
                results.append(_result(opened, [first], verdict, now, Status.FIRST_ANSWER, None, revision=0))
        if final := self._final(opened, now):
            results.append(final)
        state = self.state
        for result in results:
            state = moved(state, result.status)
        return results

    @property
    def _takes(self) -> bool:
        return self.closed_at is None and self.cancelled is None

    @property
    def _reviews(self) -> int:
        return len(self.samples) - len(self._answers())

    def _answers(self) -> list[Sample]:
        return [sample for sample in self.samples.values() if sample.role is not Role.REVIEW]

    def _complete(self, opened: Opened) -> bool:
        return len(self._answers()) >= opened.expected

    def _vote(self, opened: Opened) -> Verdict:
        policy = self._policy(opened)
        verdict = vote(list(self.samples.values()), policy)
        if opened.kind is not Kind.CODE:
            return verdict
        return choose_program(verdict, self.checks or _NOT_RUN, policy)

    def _policy(self, opened: Opened) -> VotePolicy:
        return VotePolicy.for_mode(opened.mode, opened.kind, self.options)

    def _final(self, opened: Opened, now: int) -> Result | None:
        revision = final_revision(opened)
        samples, answers = list(self.samples.values()), self._answers()
        if opened.error is not None:
            return _result(opened, samples, self._vote(opened), now, Status.FAILED, opened.error, revision)
        at = now if self.cancelled is None else min(now, self.cancelled.at)
        if not self._ended(opened, at):
            if self.cancelled is None:
                return None
            return _cancelled(opened, samples, self._vote(opened), now, self.cancelled, revision)
        short = not self._complete(opened)
        overdue = at >= opened.deadline_at
        verdict = self._vote(opened)
        status, error = _outcome(opened, answers, verdict, late=short and overdue)
        saved = _saved_tokens(opened, answers) if short and not overdue else 0
        return _result(opened, samples, verdict, now, status, error, revision, saved)

    def _ended(self, opened: Opened, at: int) -> bool:
        """What has come ends it: a vote that is decided or complete, or the time (ms)."""
        if at >= opened.deadline_at:
            return True
        if self._complete(opened):
            return not self._waits(at)
        return decided(self._answers(), opened.expected, self._policy(opened))

    def _waits(self, now: int) -> bool:
        """All answers are in, and something that could change which is best is not."""
        if self.asked is None:
            return self.unchecked or self.round(now) is not None
        return self._reviews < self.asked.count and now < self.asked.until


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

    def get(self, key: WindowKey) -> Window | None:
        """The window of a key, if there is one."""
        return self._windows.get(key)

    def watch(self, key: WindowKey) -> None:
        """Note when time next asks for this window; call it after opening, cancelling and closing it."""
        window = self._windows[key]
        if window.closed_at is not None:
            heapq.heappush(self._closed, (window.closed_at, key))
        elif window.opened is None:
            finished = [sample.timings.finished_at for sample in window.samples.values()]
            self.watch_orphan(key, window.noted_at or max(finished, default=0))
        else:
            heapq.heappush(self._openings, (window.opened.opened_at, key))
            heapq.heappush(self._deadlines, (window.opened.deadline_at, key))
            self.watch_review(key)

    def watch_review(self, key: WindowKey) -> None:
        """Note when a review round is no longer waited for; call it after asking for one."""
        if (asked := self._windows[key].asked) is not None:
            heapq.heappush(self._deadlines, (asked.until, key))

    def watch_orphan(self, key: WindowKey, now: int) -> None:
        """Note that a record came before its marker, or without one, as what is foreign or very late."""
        heapq.heappush(self._orphans, (now, key))

    def earliest(self) -> int | None:
        """The earliest opening of a window that is open, in ms."""
        while self._openings and not self._is_open(self._openings[0][1]):
            heapq.heappop(self._openings)
        return self._openings[0][0] if self._openings else None

    def overdue(self, now: int) -> list[WindowKey]:
        """Open windows whose deadline, or that of their review round, has come; each of both is named once."""
        due: list[WindowKey] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, key = heapq.heappop(self._deadlines)
            if key in self._windows and self._windows[key].closed_at is None:
                due.append(key)
        return due

    def complete(self) -> list[WindowKey]:
        """Open windows with all their answers: after a restart no record asks for what they still wait for."""
        return [key for key, window in self._windows.items() if window.complete]

    def _is_open(self, key: WindowKey) -> bool:
        window = self._windows.get(key)
        return window is not None and window.opened is not None

    def forget(self, before: int) -> list[tuple[WindowKey, Window]]:
        """Drop windows that closed, or waited in vain for their marker, since before a time (ms)."""
        gone: list[tuple[WindowKey, Window]] = []
        for heap in (self._closed, self._orphans):
            while heap and heap[0][0] < before:
                _, key = heapq.heappop(heap)
                window = self._windows.get(key)
                if window is not None and window.opened is None and window.noted_at < before:
                    gone.append((key, self._windows.pop(key)))
        return gone


def is_final(result: Result) -> bool:
    return result.status.terminal


def final_revision(opened: Opened) -> int:
    """Of the final result; before it, mode deep may have a first answer."""
    return 1 if opened.mode is Mode.DEEP else 0


def _outcome(
    opened: Opened, samples: Sequence[Sample], verdict: Verdict, *, late: bool
) -> tuple[Status, ErrorInfo | None]:
    if verdict.answer is not None:
        if not verdict.clear:
            return Status.NEEDS_CLARIFICATION, None
        return (Status.PARTIAL_DONE if late else Status.DONE), None
    errors = [sample.error for sample in sorted(samples, key=lambda s: s.sample_index) if sample.error]
    if late:
        told = f"{len(samples)} of {opened.expected} samples came before the deadline, none with an answer"
        return Status.FAILED, ErrorInfo("deadline_exceeded", told, retriable=True)
    if errors and len(errors) == len(samples):
        return Status.FAILED, errors[0]
    if samples and all(sample.finish_reason is FinishReason.LENGTH for sample in samples):
        cut = "every sample reached its token limit before an answer; raise sampling.max_new_tokens"
        return Status.FAILED, ErrorInfo("cut_short", cut)
    return Status.FAILED, ErrorInfo("no_answer", f"none of {len(samples)} samples holds an answer")


def _cancelled(
    opened: Opened, samples: Sequence[Sample], verdict: Verdict, now: int, order: Cancel, revision: int
) -> Result:
    """The votes as they stood; none of them is the answer."""
    result = _result(opened, samples, verdict, now, Status.CANCELLED, None, revision)
    why = f"cancelled: {order.reason}" if order.reason else "cancelled"
    return replace(result, answer=None, chosen_sample=None, confidence=None, why=why)


def _saved_tokens(opened: Opened, answers: Sequence[Sample]) -> int:
    """What was not waited for, at the mean length of what came: an estimate, and at most this was saved.

    A row that was being drawn when the vote was decided has spent a part of its length, which nobody publishes.
    """
    lengths = [sample.completion_tokens for sample in answers if sample.error is None]
    missing = opened.expected - len(answers)
    return round(missing * sum(lengths) / len(lengths)) if lengths else 0


def _result(
    opened: Opened,
    samples: Sequence[Sample],
    verdict: Verdict,
    now: int,
    status: Status,
    error: ErrorInfo | None,
    revision: int,
    saved_tokens: int = 0,
) -> Result:
    asks = status is Status.NEEDS_CLARIFICATION
    finished = [sample.timings.finished_at for sample in samples]
    cached = sum(sample.cached for sample in samples)
    return Result(
        request_id=opened.request_id,
        run=opened.run,
        revision=revision,
        status=status,
        tenant=opened.tenant,
        priority=opened.priority,
        mode=opened.mode,
        kind=opened.kind,
        answer=None if asks else verdict.answer,
        chosen_sample=None if asks else verdict.chosen_sample,
        confidence=verdict.confidence,
        votes=verdict.votes,
        reasoning=verdict.reasoning,
        usage=Usage(
            prompt_tokens=sum(sample.prompt_tokens for sample in samples),
            completion_tokens=sum(sample.completion_tokens for sample in samples),
            saved_tokens=saved_tokens,
            samples_expected=opened.expected,
            samples_used=sum(vote.count for vote in verdict.votes),
            cached_samples=cached,
        ),
        timings=HopTimings(
            created_at=opened.created_at,
            opened_at=opened.opened_at,
            first_sample_at=min(finished, default=None),
            last_sample_at=max(finished, default=None),
            finished_at=now,
        ),
        clarifying_question=clarifying_question(verdict.votes, Language(opened.language)) if asks else None,
        error=error,
        callback=opened.callback,
        metadata=opened.metadata,
        why=f"{verdict.why}; from the answer cache" if cached else verdict.why,
    )
