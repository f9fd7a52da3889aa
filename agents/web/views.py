"""A task as its page shows it: the samples by their groups, the winner's first, and where the time went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from agents.web import words
from pipeline.commands.show import one_line
from pipeline.events import (
    Chain,
    Delivery,
    ErrorInfo,
    HopTimings,
    InferenceRequest,
    Message,
    Outcome,
    Role,
    Sample,
    SamplingOverrides,
    Vote,
)
from pipeline.explaining import hops, note_of, sureness_parts
from pipeline.scheduling.modes import PROFILES
from pipeline.scheduling.states import ENDS
from pipeline.store.tasks import Task

_TITLE = 120


@dataclass(frozen=True, slots=True)
class Group:
    """Equal answers; ``place`` is from 1, ``share`` and ``width`` in percent."""

    place: int
    answer: str
    count: int
    share: float
    width: float
    confidence: float
    score: float
    samples: tuple[int, ...]
    review: float | None


@dataclass(frozen=True, slots=True)
class Card:
    """One sample.

    Attributes:
        state: ``done``, or ``wait`` for one that is not drawn yet.
        word: what became of it.
        group: place of its group, from 1; ``None``: it has none (yet).
        facts: tokens, seconds, and what else is known of the drawing.
        sureness: what its confidence is made of.
    """

    index: int
    state: str
    path: str
    role: str
    word: str
    chosen: bool
    group: int | None
    answer: str | None
    text: str
    note: str
    facts: tuple[str, ...]
    sureness: tuple[str, ...]
    error: ErrorInfo | None = None

    @property
    def judges(self) -> bool:
        return self.role == Role.REVIEW.value


@dataclass(frozen=True, slots=True)
class Column:
    """Samples that belong together under a heading; ``group`` is ``None`` for those without a vote."""

    heading: str
    group: Group | None
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A hop; begin and width in percent of the whole."""

    name: str
    seconds: float
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A callback, its newest state and its attempts, the oldest first."""

    newest: Delivery
    attempts: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task's page.

    Attributes:
        ended: nothing more will come.
        columns: the winning group first; before there are votes, all samples in one.
        reviews: samples that have judged others.
        votes_in: of ``expected``.
    """

    task: Task
    path: str
    title: str
    said: tuple[Message, ...]
    ended: bool
    groups: tuple[Group, ...]
    columns: tuple[Column, ...]
    reviews: tuple[Card, ...]
    votes_in: int
    expected: int
    timeline: tuple[Bar, ...]
    whole_s: float
    usage: tuple[str, ...]
    deliveries: tuple[DeliveryView, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One task of a list."""

    task: Task
    path: str
    title: str
    answer: str
    took_s: float | None


def path_of(request_id: str) -> str:
    """The page of a task, whose id may hold any printable character."""
    return f"/tasks/{quote(request_id, safe='')}"


def row_of(task: Task) -> Row:
    """The one line that a list has for it."""
    result = task.result
    answer = ""
    if result is not None:
        answer = result.answer or result.clarifying_question or (result.error.code if result.error else "")
    took = None if task.finished_at is None else (task.finished_at - task.accepted_at) / 1000
    return Row(task, path_of(task.request.request_id), title_of(task.request), one_line(answer, _TITLE), took)


def title_of(request: InferenceRequest) -> str:
    """The question on one line: the prompt, or the user's last words."""
    return one_line(_conversation(request)[-1].content, _TITLE) or "(no text)"


def task_view(task: Task, samples: Sequence[Sample], deliveries: Iterable[DeliveryView]) -> TaskView:
    """Everything that is known of a task; what is not is left out."""
    result = task.result
    groups = _groups(result.votes if result else ())
    expected = task.expected or task.request.sampling.n or PROFILES[task.request.mode].samples
    cards = _cards(task, samples, expected)
    timings = result.timings if result is not None and task.status in ENDS else None
    return TaskView(
        task,
        path_of(task.request.request_id),
        title_of(task.request),
        _conversation(task.request),
        task.status in ENDS,
        groups,
        tuple(_columns(groups, [card for card in cards if not card.judges])),
        tuple(card for card in cards if card.judges),
        sum(group.count for group in groups),
        expected,
        tuple(_timeline(timings)) if timings else (),
        (timings.finished_at - timings.created_at) / 1000 if timings else 0.0,
        tuple(_usage(task)),
        tuple(deliveries),
    )


def sample_card(sample: Sample) -> Card:
    """A sample that was drawn, and of whose vote nothing is known."""
    return _card(
        Chain(
            sample.sample_index,
            sample.role,
            sample.path,
            sample.text,
            None,
            0.0,
            sample.finish_reason,
            outcome=_ended_as(sample),
        ),
        sample,
        None,
    )


def overrides(sampling: SamplingOverrides) -> tuple[str, ...]:
    """What a request says otherwise than its mode."""
    named = {
        "samples": sampling.n,
        "temperature": sampling.temperature,
        "top-p": sampling.top_p,
        "tokens at most": sampling.max_new_tokens,
        "seed": sampling.seed,
    }
    return tuple(f"{name} {value}" for name, value in named.items() if value is not None)


def _conversation(request: InferenceRequest) -> tuple[Message, ...]:
    return request.messages or (Message("user", request.prompt),)


def _groups(votes: Sequence[Vote]) -> tuple[Group, ...]:
    total = sum(vote.count for vote in votes) or 1
    most = max((vote.count for vote in votes), default=1) or 1
    return tuple(
        Group(
            place,
            vote.answer,
            vote.count,
            round(100 * vote.count / total),
            round(100 * vote.count / most, 2),
            vote.confidence,
            vote.score,
            vote.samples,
            vote.review,
        )
        for place, vote in enumerate(votes, 1)
    )


def _cards(task: Task, samples: Sequence[Sample], expected: int) -> list[Card]:
    drawn = {sample.sample_index: sample for sample in samples}
    result = task.result
    cards = {sample.sample_index: sample_card(sample) for sample in samples}
    if result is not None:
        if task.status in ENDS:
            cards = {index: replace(card, word="came too late") for index, card in cards.items()}
        for chain in result.reasoning:
            chosen = chain.sample_index == result.chosen_sample
            cards[chain.sample_index] = _card(chain, drawn.get(chain.sample_index), chosen)
    if task.status not in ENDS:
        for index in range(expected):
            cards.setdefault(index, _awaited(index))
    return [cards[index] for index in sorted(cards)]


def _card(chain: Chain, sample: Sample | None, chosen: bool | None) -> Card:
    return Card(
        chain.sample_index,
        "done",
        _path(chain.path),
        "" if chain.role is Role.ANSWER else chain.role.value,
        words.outcome_word(chain.outcome),
        bool(chosen),
        None if chain.group is None else chain.group + 1,
        chain.answer,
        chain.text,
        note_of(chain),
        tuple(_facts(chain, sample)),
        tuple(sureness_parts(chain.sureness)) if chain.sureness and chain.answer is not None else (),
        sample.error if sample else None,
    )


def _path(path: str) -> str:
    """A review's path names the samples that it compares: ``review:0:1``."""
    _, _, compared = path.partition("review:")
    if not compared:
        return path.replace("_", " ")
    return " against ".join(f"#{each}" for each in compared.split(":"))


def _awaited(index: int) -> Card:
    return Card(index, "wait", "", "", "waits for its turn", False, None, None, "", "", (), ())


def _ended_as(sample: Sample) -> Outcome:
    if sample.role is Role.REVIEW:
        return Outcome.REVIEW
    return Outcome.FAILED if sample.error else Outcome.UNKNOWN


def _facts(chain: Chain, sample: Sample | None) -> Iterable[str]:
    if sample is not None:
        yield words.amount(sample.completion_tokens, "token")
        yield words.duration((sample.timings.finished_at - sample.timings.started_at) / 1000)
    if chain.finish_reason.value != "stop":
        yield f"ended by {chain.finish_reason.value}"
    if sample is not None and sample.cached:
        yield "from the answer cache"


def _columns(groups: Sequence[Group], cards: Sequence[Card]) -> Iterable[Column]:
    """In the order of the votes; then who did not vote."""
    by_group: Mapping[int, list[Card]] = {group.place: [] for group in groups}
    left: list[Card] = []
    for card in cards:
        by_group.get(card.group or 0, left).append(card)
    for group in groups:
        if members := sorted(by_group[group.place], key=lambda card: (not card.chosen, card.index)):
            yield Column("", group, tuple(members))
    if left:
        yield Column("no vote" if groups else "samples", None, tuple(left))


def _timeline(timings: HopTimings) -> Iterable[Bar]:
    whole = max(1, timings.finished_at - timings.created_at)
    for name, start, end in hops(timings):
        took = max(0, end - start)
        begin = min(100.0, max(0.0, 100 * (start - timings.created_at) / whole))
        yield Bar(name, took / 1000, round(begin, 2), round(min(100.0 - begin, 100 * took / whole), 2))


def _usage(task: Task) -> Iterable[str]:
    if task.result is None or task.status not in ENDS:
        return
    usage = task.result.usage
    yield f"{usage.samples_used} of {words.amount(usage.samples_expected, 'sample')} voted"
    yield f"{words.amount(usage.prompt_tokens, 'token')} read"
    yield f"{usage.completion_tokens:,} written"
    if usage.saved_tokens:
        yield f"{usage.saved_tokens:,} saved by stopping early"
    if usage.cached_samples:
        yield f"{words.amount(usage.cached_samples, 'sample')} from the answer cache"
