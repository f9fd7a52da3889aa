"""The typed events, one frozen dataclass for each record in ``schemas/``.

Every time is an integer of milliseconds since 1970-01-01 UTC unless its name says otherwise.
Identities are deterministic: a sample is (request_id, run, sample_index), a result
(request_id, run, revision), a delivery the hash of a result's identity and its endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

PRIORITIES = 6
DEFAULT_PRIORITY = 3


class Mode(StrEnum):
    """How many samples a request gets and how they are drawn."""

    FAST = "fast"
    STANDARD = "standard"
    DEEP = "deep"
    OPEN = "open"


class Kind(StrEnum):
    """What sort of answer is asked for, which decides how samples are compared."""

    ANSWER = "answer"
    OPEN = "open"
    CODE = "code"
    VISION = "vision"


class Role(StrEnum):
    """What a sample is for: a vote, the early first answer, or a judgement of other samples."""

    ANSWER = "answer"
    FIRST = "first"
    REVIEW = "review"


class CachePolicy(StrEnum):
    """Whether a request may be answered by what another one was told."""

    NONE = "none"
    ALLOW = "allow"


class FinishReason(StrEnum):
    """Why a sample's generation ended."""

    STOP = "stop"
    LENGTH = "length"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    ERROR = "error"


class Status(StrEnum):
    """The state of a request as a client sees it."""

    PENDING = "pending"
    RUNNING = "running"
    FIRST_ANSWER = "first_answer"
    DONE = "done"
    PARTIAL_DONE = "partial_done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    NEEDS_CLARIFICATION = "needs_clarification"

    @property
    def terminal(self) -> bool:
        return self not in (Status.PENDING, Status.RUNNING, Status.FIRST_ANSWER)


class Outcome(StrEnum):
    """What became of one sample in the vote."""

    UNKNOWN = "unknown"
    WON = "won"
    WON_TIE = "won_tie"
    LOST = "lost"
    ABSTAINED = "abstained"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REVIEW = "review"


class ControlAction(StrEnum):
    """What a ``control`` record asks of every hop."""

    CANCEL = "cancel"
    DECIDED = "decided"


class TurnKind(StrEnum):
    """What a ``turns`` record tells."""

    ASKED = "asked"
    ENDED = "ended"


class ProgressKind(StrEnum):
    """What a ``progress`` record tells."""

    STATE = "state"
    TOKENS = "tokens"
    VOTES = "votes"


class DeliveryState(StrEnum):
    """Where one callback stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation in the chat format of the model's template."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SamplingOverrides:
    """What a request changes of its mode's sampling; ``None`` keeps the mode's value."""

    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class Callback:
    """Where results go by HTTP POST; the secret itself is never in a record, only its id."""

    url: str
    secret_id: str = "default"
    events: tuple[str, ...] = ("done",)


@dataclass(frozen=True, slots=True)
class Session:
    """The conversation that a request belongs to."""

    user: str
    session: str


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One question, as an upstream system produces it on ``requests``."""

    request_id: str
    prompt: str = ""
    messages: tuple[Message, ...] = ()
    created_at: int = 0
    tenant: str = "default"
    priority: int = DEFAULT_PRIORITY
    mode: Mode = Mode.STANDARD
    kind: Kind = Kind.ANSWER
    images: tuple[bytes, ...] = ()
    tests: str | None = None
    sampling: SamplingOverrides = field(default_factory=SamplingOverrides)
    deadline_ms: int | None = None
    callback: Callback | None = None
    session: Session | None = None
    run: int = 0
    replay_id: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    cache: CachePolicy = CachePolicy.NONE


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A failure that travels in an event: a stable code, a sentence, and whether a retry can help."""

    code: str
    message: str
    retriable: bool = False


@dataclass(frozen=True, slots=True)
class SampleTask:
    """One sample to draw: its index in the request, what it is for, and its own seed."""

    sample_index: int
    role: Role = Role.ANSWER
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The sample tasks of one request that share one prompt, so the prompt travels and is prefilled once."""

    request_id: str
    run: int
    tenant: str
    priority: int
    mode: Mode
    kind: Kind
    path: str
    messages: tuple[Message, ...]
    temperature: float
    top_p: float
    max_new_tokens: int
    created_at: int
    deadline_at: int
    tasks: tuple[SampleTask, ...]
    stop: tuple[str, ...] = ()
    images: tuple[bytes, ...] = ()
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    top_logprobs: int = 0
    cache: bool = False
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Sample tasks of one lane that travel together to a worker."""

    batch_id: str
    lane: int
    created_at: int
    groups: tuple[TaskGroup, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """The marker that opens a request's window: how many samples to expect, and until when.

    Attributes:
        error: set when the request was refused: the window then closes at once as failed.
        language: in which a clarifying question is asked, ``en`` or ``zh``.
        question: what was asked, for the samples that review others; empty when none will, or when it is too long.
        max_new_tokens: of one sample; with ``expected`` the request's budget.
        tests: of kind code.
        content: a digest of what was asked, by which the same id with another question is known; empty: not known.
        session: which is told when the window has ended.
    """

    request_id: str
    run: int
    tenant: str
    priority: int
    mode: Mode
    kind: Kind
    created_at: int
    opened_at: int
    deadline_at: int
    expected: int
    callback: Callback | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    error: ErrorInfo | None = None
    language: str = "en"
    question: str = ""
    max_new_tokens: int = 0
    tests: str | None = None
    content: str = ""
    session: Session | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class SampleTimings:
    """When one sample passed each step."""

    queued_at: int
    started_at: int
    first_token_at: int | None
    finished_at: int


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its text alone; ``id`` is ``None`` when a server drew it."""

    text: str
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Logprobs:
    """The drawn and the likeliest tokens of a sample, with natural log-probabilities before warping.

    Attributes:
        top: likeliest tokens at each position.
        tokens: each token that occurs, once.
        places: 1 + ``top`` a position: where in ``tokens`` the drawn one is, then the likeliest, best first;
            -1 where a server gave fewer.
        values: the log-probability of each of ``places``.
        dropped: they were more than a record takes, and there are none.
    """

    top: int
    tokens: tuple[Token, ...] = ()
    places: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished sample of a request.

    Attributes:
        cached: drawn for another request of the same question; its tokens are counted there.
    """

    request_id: str
    run: int
    sample_index: int
    role: Role
    path: str
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    mean_logprob: float | None
    seed: int | None
    temperature: float
    timings: SampleTimings
    worker: str
    error: ErrorInfo | None = None
    logprobs: Logprobs | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Vote:
    """One group of equal answers; ``review`` is the share of comparisons that it won, if it was compared."""

    answer: str
    count: int
    confidence: float
    score: float
    samples: tuple[int, ...]
    review: float | None = None


@dataclass(frozen=True, slots=True)
class Sureness:
    """How sure one sample is, and what that is made of; ``pipeline.fusion.confidence`` says how.

    Attributes:
        value: all parts together, 0 to 1.
        tokens: the geometric mean probability of its tokens; 0.5 when it is not known.
        steps_right, steps_wrong: computations in its text that hold and do not.
        contradictions: ways in which the text contradicts its own answer.
        derivations: different computations that end in the answer.
        worth: what it adds to its group, 0 to 1: less than 1 for a text that others said word for word.
    """

    value: float
    tokens: float
    steps_right: int = 0
    steps_wrong: int = 0
    contradictions: int = 0
    derivations: int = 0
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class Chain:
    """One sample as the result explains it: its text, its answer, its group and why it counted or not.

    Attributes:
        answer: what was extracted; ``None`` is an abstention.
        score: of its group.
        group: place of its group in the result's votes, from 0; ``None`` when it did not vote.
    """

    sample_index: int
    role: Role
    path: str
    text: str
    answer: str | None
    score: float
    finish_reason: FinishReason
    note: str = ""
    outcome: Outcome = Outcome.UNKNOWN
    group: int | None = None
    sureness: Sureness | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens spent on a request, and those that an early stop did not have to spend.

    Attributes:
        saved_tokens: an estimate: samples that never came times the mean length of those that did.
        cached_samples: of those that came, how many the answer cache gave.
    """

    prompt_tokens: int
    completion_tokens: int
    saved_tokens: int
    samples_expected: int
    samples_used: int
    cached_samples: int = 0


@dataclass(frozen=True, slots=True)
class HopTimings:
    """When a request passed each hop."""

    created_at: int
    opened_at: int
    first_sample_at: int | None
    last_sample_at: int | None
    finished_at: int


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a request, with everything needed to see why it won."""

    request_id: str
    run: int
    revision: int
    status: Status
    tenant: str
    priority: int
    mode: Mode
    kind: Kind
    answer: str | None
    chosen_sample: int | None
    confidence: float | None
    votes: tuple[Vote, ...]
    reasoning: tuple[Chain, ...]
    usage: Usage
    timings: HopTimings
    clarifying_question: str | None = None
    error: ErrorInfo | None = None
    callback: Callback | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    why: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One callback and where it stands; ``body`` is made once and sent unchanged at every attempt.

    Attributes:
        attempts_before: of ``attempt``, those made before it was last sent again; the schedule begins after them.
        failing_since: since when its endpoint has taken nothing, as known after the last attempt.
    """

    delivery_id: str
    request_id: str
    run: int
    revision: int
    event: str
    url: str
    secret_id: str
    state: DeliveryState
    attempt: int
    created_at: int
    updated_at: int
    next_due_at: int | None
    body: bytes
    status_code: int | None = None
    error: ErrorInfo | None = None
    attempts_before: int = 0
    failing_since: int | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """A word to every hop about one request."""

    request_id: str
    run: int
    action: ControlAction
    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """What happens to a request while it runs; may be lost, never decides anything."""

    request_id: str
    run: int
    kind: ProgressKind
    at: int
    status: Status | None = None
    sample_index: int | None = None
    text: str = ""
    votes: tuple[Vote, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """A word about one turn of a conversation: it was asked, or it has ended.

    Attributes:
        deadline_at: of kind asked.
        appended_at: of kind asked: the broker's time of the request.
        request: of kind asked: the request's record as it came.
        status: of kind ended.
        answer: of kind ended, if there is one.
    """

    user: str
    session: str
    request_id: str
    run: int
    kind: TurnKind
    at: int
    deadline_at: int = 0
    appended_at: int = 0
    request: bytes | None = None
    status: Status | None = None
    answer: str | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one turn has left in its conversation: what was said, and the answer.

    Attributes:
        place: offset on ``turns`` of its asking, by which turns are in order.
    """

    place: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A turn that was begun and has not ended; ``messages`` are those of its request."""

    request_id: str
    run: int
    place: int
    deadline_at: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as ``sessions`` keeps it; its waiting turns are records beside it.

    Attributes:
        at: when a turn was last asked or ended.
        through: offset on ``turns`` up to which this is what came of it.
        system: the system's messages.
        history: in order.
        running: in order.
    """

    user: str
    session: str
    at: int
    through: int
    system: tuple[Message, ...] = ()
    history: tuple[Exchange, ...] = ()
    running: tuple[RunningTurn, ...] = ()


Event = (
    InferenceRequest | Batch | Opened | Sample | Result | Delivery | Control | Progress | Turn | Conversation
)
EVENT_TYPES: tuple[type[Event], ...] = (
    InferenceRequest,
    Batch,
    Opened,
    Sample,
    Result,
    Delivery,
    Control,
    Progress,
    Turn,
    Conversation,
)
