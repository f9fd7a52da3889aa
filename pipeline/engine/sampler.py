"""Drawing the next token of each row by its own penalty, temperature, top-k, top-p and min-p."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.errors import NonFiniteLogitsError

# Below this a division by the temperature overflows and the distribution is greedy anyway.
_COLDEST = 1e-5
# A nucleus nearly always lies within so many tokens, and finding them costs far less than a full sort.
_NUCLEUS_GUESS = 1024
_NOT_FINITE = "The model gave numbers that are not finite for this sample"


@dataclass(frozen=True, slots=True)
class Warp:
    """How one row's distribution is changed before a token is drawn; ``temperature`` 0 is greedy."""

    temperature: float
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @property
    def greedy(self) -> bool:
        return self.temperature < _COLDEST


@dataclass(frozen=True, slots=True)
class Ask:
    """How one row wants its token drawn.

    Attributes:
        generator: gives one number a token; greedy rows take none.
        seen: tokens under the repetition penalty; read only if there is one.
        top: how many of the likeliest tokens to report.
    """

    warp: Warp
    generator: torch.Generator
    seen: Collection[int] = ()
    top: int = 0


@dataclass(frozen=True, slots=True)
class Draw:
    """A token, its log-probability before warping, and the likeliest tokens with theirs."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def draw(logits: Tensor, asks: Sequence[Ask]) -> list[Draw | Exception]:
    """Draw one token for each row, or say why it gets none; a row that can not be drawn harms no other.

    Each row is drawn by itself from one uniform number of its own generator, so its token does not
    depend on its neighbours.

    Args:
        logits: [rows, vocabulary], any float type. Minus infinity bars a token.
    """
    scores = logits.float()
    # The maximum is NaN if any score is, and infinite if any is +inf or all are -inf.
    finite: list[bool] = scores.amax(-1).isfinite().tolist()
    tokens = scores.argmax(-1)
    failed: dict[int, Exception] = {}
    for row, ask in enumerate(asks):
        try:
            if not finite[row]:
                raise NonFiniteLogitsError(_NOT_FINITE)
            if not ask.warp.greedy or ask.warp.repetition_penalty != 1.0:
                tokens[row] = _token(scores[row], ask)
        except Exception as error:
            failed[row] = error
    normalisers = scores.logsumexp(-1)
    logprobs: list[float] = (scores.gather(-1, tokens[:, None])[:, 0] - normalisers).tolist()
    return [
        failed.get(row) or Draw(token, logprobs[row], _top(scores[row], normalisers[row], asks[row].top))
        for row, token in enumerate(tokens.tolist())
    ]


def _token(scores: Tensor, ask: Ask) -> int:
    penalised = _penalised(scores, ask)
    if ask.warp.greedy:
        return int(penalised.argmax())
    uniform = torch.rand((), generator=ask.generator, dtype=torch.float64).item()
    token = int(sample(penalised, ask.warp, uniform))
    if token >= len(scores):  # there is no sum to be at a quantile of
        raise NonFiniteLogitsError(_NOT_FINITE)
    return token


def _penalised(scores: Tensor, ask: Ask) -> Tensor:
    penalty = ask.warp.repetition_penalty
    if penalty == 1.0 or not ask.seen:
        return scores
    seen = torch.tensor(list(ask.seen), device=scores.device)
    old = scores[seen]
    return scores.index_copy(0, seen, torch.where(old < 0, old * penalty, old / penalty))


def _top(scores: Tensor, normaliser: Tensor, count: int) -> tuple[tuple[int, float], ...]:
    if not count:
        return ()
    kept, tokens = scores.topk(min(count, len(scores)))
    return tuple(zip(tokens.tolist(), (kept - normaliser).tolist(), strict=True))


def sample(scores: Tensor, warp: Warp, uniform: float) -> Tensor:
    """The token at quantile ``uniform`` of one row's warped distribution.

    The order is that of transformers: temperature, top-k, top-p over what is left, min-p. As min-p compares
    with the likeliest token alone, it can be applied first.

    Args:
        scores: [vocabulary], finite maximum.
        uniform: in [0, 1).
    """
    scaled = (scores.double() - scores.max()) / warp.temperature
    if 0 < warp.top_k < len(scaled):
        kept, tokens = scaled.topk(warp.top_k)
        probabilities = kept.softmax(0)
    elif warp.top_p < 1:
        tokens, probabilities = _likeliest(scaled, warp.top_p)
    else:
        return _quantile(_above(scaled, warp.min_p).exp(), uniform)
    if warp.top_p < 1:
        before = probabilities.cumsum(0) - probabilities
        probabilities = probabilities * (before < warp.top_p)
    if warp.min_p:
        probabilities = probabilities * (probabilities >= warp.min_p * probabilities[0])
    return tokens[_quantile(probabilities, uniform)]


def _likeliest(scaled: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """Tokens from the likeliest down whose probabilities reach ``top_p``, and these probabilities."""
    normaliser = scaled.logsumexp(0)
    kept, tokens = scaled.topk(min(_NUCLEUS_GUESS, len(scaled)))
    probabilities = (kept - normaliser).exp()
    if probabilities.sum() < top_p:
        kept, tokens = scaled.sort(descending=True)
        probabilities = (kept - normaliser).exp()
    return tokens, probabilities


def _above(scaled: Tensor, min_p: float) -> Tensor:
    """``scaled``, whose maximum is 0, with the tokens barred that min-p cuts off."""
    return scaled.masked_fill(scaled < math.log(min_p), -math.inf) if min_p else scaled


def _quantile(weights: Tensor, uniform: float) -> Tensor:
    """The first index at which the running sum of ``weights`` exceeds ``uniform`` of the whole."""
    sums = weights.cumsum(0)
    # Rounding may lift the target to the whole sum, behind which lie only tokens of no weight.
    last = torch.searchsorted(sums, sums[-1])
    return torch.minimum(torch.searchsorted(sums, uniform * sums[-1], right=True), last)
