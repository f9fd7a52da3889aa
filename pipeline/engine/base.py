"""The engine's contract: submit sample tasks, hear tokens and completions, cancel, close.

An engine runs on its own thread. Every accepted task ends in exactly one ``done``, whatever happens to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipeline.events import ErrorInfo, FinishReason, Message


class TaskKey(NamedTuple):
    """A sample's identity."""

    request_id: str
    run: int
    sample_index: int


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of one sample are drawn.

    Attributes:
        temperature: 0 is greedy.
        top_p: nucleus, in (0, 1].
        top_k: 0 is off.
        min_p: tokens less likely than this share of the likeliest one are not drawn, in [0, 1]; 0 is off.
        repetition_penalty: positive logits of tokens that are there already, the prompt's included, are
            divided by it and negative ones multiplied (Keskar et al. 2019, as in transformers); 1 is off.
        max_new_tokens: upper bound; the room left in the context may make it smaller.
        seed: ``None`` draws a random one, which the completion reports.
        stop: texts that end the sample and are not part of it.
    """

    temperature: float = 0.5
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_new_tokens: int = 256
    seed: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationTask:
    """One sample to draw.

    Attributes:
        key: identity; a key that runs already is not accepted twice.
        messages: the prompt as chat turns; tasks with equal messages share one prefill.
        deadline: unix time in seconds after which the sample ends with what it has (``timeout``).
        top_logprobs: how many of the likeliest tokens to report at each position, 0 to 20, beside the one
            drawn; ``None`` reports nothing by token.
        images: what the last user's turn shows, as encoded files, or ``file:`` and a path below the folder of
            ``engine.image_folder``.
        path: the prompt path, which says which parts of the images are shown.
    """

    key: TaskKey
    messages: tuple[Message, ...]
    params: SamplingParams
    deadline: float
    top_logprobs: int | None = None
    images: tuple[bytes, ...] = ()
    path: str = "direct"


class TokenLogprob(NamedTuple):
    """A token and its natural log-probability before penalty, temperature and cuts.

    ``token`` is its id, ``None`` when a server drew it; ``text`` is what it says by itself.
    """

    token: int | None
    logprob: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """One drawn token, and the likeliest ones in its place, the first of them first."""

    drawn: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """How one sample ended. Times are unix seconds.

    Attributes:
        mean_logprob: of the drawn tokens, before penalty, temperature and cuts; ``None`` without any.
        positions: one for each drawn token, if the task asked for ``top_logprobs`` and the engine has them;
            none for those whose text a stop text has cut off.
        cached: not drawn for this task, but for one before that asked the same.
    """

    key: TaskKey
    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    mean_logprob: float | None
    seed: int | None
    started_at: float
    first_token_at: float | None
    finished_at: float
    error: ErrorInfo | None = None
    positions: tuple[Position, ...] = ()
    cached: bool = False


class EngineListener(Protocol):
    """Called on the engine's thread; must be quick and must not raise."""

    def tokens(self, key: TaskKey, text: str) -> None:
        """New text of a running sample; all pieces joined are the completion's text.

        Only an engine that had to begin a sample again may end it with another text than it has shown.
        """
        ...

    def done(self, completion: Completion) -> None:
        """A sample has ended; called once for each accepted task."""
        ...


class Engine(Protocol):
    """What the worker needs of an engine."""

    def start(self, listener: EngineListener) -> None:
        """Load the model and warm up; returns when ready.

        Raises:
            ModelLoadError: says what is wrong with the model.
        """
        ...

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is already queued or running. Never blocks."""
        ...

    def cancel(self, key: TaskKey) -> None:
        """End a task as ``cancelled`` with the text so far; an unknown key is harmless."""
        ...

    def capacity(self) -> int:
        """How many more tasks would start at once: free rows less tasks that wait."""
        ...

    def close(self) -> None:
        """Stop the thread; tasks that still run end as ``cancelled``."""
        ...
