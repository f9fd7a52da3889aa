"""Drawing the next token of each row by its own temperature, top-k and top-p."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# Below this a division by the temperature overflows and the distribution is greedy anyway.
_COLDEST = 1e-5
# A nucleus nearly always lies within so many tokens, and finding them costs far less than a full sort.
_NUCLEUS_GUESS = 1024


@dataclass(frozen=True, slots=True)
class Warp:
    """How one row's distribution is changed before a token is drawn; ``temperature`` 0 is greedy."""

    temperature: float
    top_p: float
    top_k: int

    @property
    def greedy(self) -> bool:
        return self.temperature < _COLDEST


@dataclass(frozen=True, slots=True)
class Draw:
    """A token and its log-probability before warping."""

    token: int
    logprob: float


def draw(logits: Tensor, warps: Sequence[Warp], generators: Sequence[torch.Generator]) -> list[Draw | None]:
    """Draw one token for each row; ``None`` for a row whose logits are not finite.

    Each row is drawn by itself from one uniform number of its own generator, so its token does not
    depend on its neighbours.

    Args:
        logits: [rows, vocabulary], any float type. Minus infinity bars a token.
    """
    scores = logits.float()
    # The maximum is NaN if any score is, and infinite if any is +inf or all are -inf.
    finite: list[bool] = scores.amax(-1).isfinite().tolist()
    tokens = scores.argmax(-1)
    for row, (warp, generator) in enumerate(zip(warps, generators, strict=True)):
        if finite[row] and not warp.greedy:
            uniform = torch.rand((), generator=generator, dtype=torch.float64).item()
            tokens[row] = sample(scores[row], warp, uniform)
    chosen = scores.gather(-1, tokens[:, None])[:, 0]
    logprobs: list[float] = (chosen - scores.logsumexp(-1)).tolist()
    return [
        Draw(token, logprob) if ok else None
        for token, logprob, ok in zip(tokens.tolist(), logprobs, finite, strict=True)
    ]


def sample(scores: Tensor, warp: Warp, uniform: float) -> Tensor:
    """The token at quantile ``uniform`` of one row's warped distribution.

    The order is that of transformers: temperature, then top-k, then top-p over what is left.

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
        return _quantile(scaled.exp(), uniform)
    if warp.top_p < 1:
        before = probabilities.cumsum(0) - probabilities
        probabilities = probabilities * (before < warp.top_p)
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


def _quantile(weights: Tensor, uniform: float) -> Tensor:
    """The first index at which the running sum of ``weights`` exceeds ``uniform`` of the whole."""
    sums = weights.cumsum(0)
    # Rounding may lift the target to the whole sum, behind which lie only tokens of no weight.
    last = torch.searchsorted(sums, sums[-1])
    return torch.minimum(torch.searchsorted(sums, uniform * sums[-1], right=True), last)
