"""Drawing one token: the right distribution, the same as transformers' own warpers leave."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from pipeline.engine.sampler import Warp, draw, sample


def reference(scores: torch.Tensor, warp: Warp) -> torch.Tensor:
    rows = TemperatureLogitsWarper(float(warp.temperature))(None, scores[None].double())
    if warp.top_k:
        rows = TopKLogitsWarper(warp.top_k)(None, rows)
    if warp.top_p < 1:
        rows = TopPLogitsWarper(warp.top_p)(None, rows)
    return rows[0].softmax(0)


WARPS = [Warp(1.0, 1.0, 0), Warp(0.5, 0.9, 0), Warp(2, 0.7, 5), Warp(0.8, 1.0, 3), Warp(1.3, 0.999, 0)]


@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("vocabulary", [12, 3000])
def test_quantiles_cover_the_warped_distribution(warp, vocabulary):
    scores = torch.randn(vocabulary, generator=torch.Generator().manual_seed(1)) * 2
    wanted = reference(scores, warp)
    steps = 500
    counts = Counter(int(sample(scores, warp, (step + 0.5) / steps)) for step in range(steps))
    for token, probability in enumerate(wanted.tolist()):
        assert counts[token] / steps == pytest.approx(probability, abs=1.5 / steps)


def test_the_ends_of_the_unit_interval_stay_within_the_tokens_that_have_weight():
    scores = torch.full((10,), -math.inf)
    scores[3], scores[6] = 0.0, 1.0
    for warp in WARPS:
        assert int(sample(scores, warp, 0.0)) in (3, 6)
        assert int(sample(scores, warp, 1 - 2**-53)) in (3, 6)


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-320, 1e-9])
def test_the_coldest_temperatures_are_greedy(temperature):
    logits = torch.tensor([[0.0, 5.0, 4.9999]])
    (drawn,) = draw(logits, [Warp(temperature, 0.5, 0)], [torch.Generator()])
    assert drawn is not None and drawn.token == 1
    assert drawn.logprob == pytest.approx(float(logits.log_softmax(-1)[0, 1]))


def test_a_huge_temperature_is_even():
    scores = torch.randn(4)
    assert {int(sample(scores, Warp(1e30, 1.0, 0), (i + 0.5) / 4)) for i in range(4)} == {0, 1, 2, 3}


def test_rows_that_are_not_finite_draw_nothing_and_the_others_do():
    logits = torch.zeros(4, 5)
    logits[0, 2], logits[1, 2], logits[2] = math.nan, math.inf, -math.inf
    logits[3, :4] = -math.inf
    drawn = draw(logits, [Warp(1.0, 0.9, 0)] * 4, [torch.Generator() for _ in range(4)])
    assert drawn[:3] == [None, None, None]
    assert drawn[3] is not None and drawn[3].token == 4


def test_a_row_draws_the_same_beside_any_others():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(2))
    warps = [WARPS[i % len(WARPS)] for i in range(6)]
    together = draw(logits, warps, [torch.Generator().manual_seed(i) for i in range(6)])
    alone = [draw(logits[i : i + 1], [warps[i]], [torch.Generator().manual_seed(i)])[0] for i in range(6)]
    assert [one and one.token for one in together] == [one and one.token for one in alone]
