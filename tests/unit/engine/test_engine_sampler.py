"""Drawing one token: the right distribution, the same as transformers' own warpers leave."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pipeline.engine.sampler import Ask, Draw, Warp, draw, sample
from pipeline.errors import NonFiniteLogitsError


def reference(scores: torch.Tensor, warp: Warp) -> torch.Tensor:
    rows = TemperatureLogitsWarper(float(warp.temperature))(None, scores[None].double())
    if warp.top_k:
        rows = TopKLogitsWarper(warp.top_k)(None, rows)
    if warp.top_p < 1:
        rows = TopPLogitsWarper(warp.top_p)(None, rows)
    if warp.min_p:
        rows = MinPLogitsWarper(warp.min_p)(None, rows)
    return rows[0].softmax(0)


WARPS = [
    Warp(1.0),
    Warp(0.5, top_p=0.9),
    Warp(2, top_p=0.7, top_k=5),
    Warp(0.8, top_k=3),
    Warp(1.3, top_p=0.999),
    Warp(1.0, min_p=0.1),
    Warp(0.9, top_k=6, min_p=0.3),
    Warp(1.5, top_p=0.8, min_p=0.2),
    Warp(1.5, top_p=0.95, top_k=8, min_p=0.15),
]


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
    (drawn,) = draw(logits, [Ask(Warp(temperature, top_p=0.5), torch.Generator())])
    assert drawn is not None and drawn.token == 1
    assert drawn.logprob == pytest.approx(float(logits.log_softmax(-1)[0, 1]))


def test_a_huge_temperature_is_even():
    scores = torch.randn(4)
    assert {int(sample(scores, Warp(1e30), (i + 0.5) / 4)) for i in range(4)} == {0, 1, 2, 3}


def test_rows_that_are_not_finite_draw_nothing_and_the_others_do():
    logits = torch.zeros(4, 5)
    logits[0, 2], logits[1, 2], logits[2] = math.nan, math.inf, -math.inf
    logits[3, :4] = -math.inf
    drawn = draw(logits, [Ask(Warp(1.0, top_p=0.9), torch.Generator()) for _ in range(4)])
    assert [type(each) for each in drawn[:3]] == [NonFiniteLogitsError] * 3
    assert isinstance(drawn[3], Draw) and drawn[3].token == 4


@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_a_row_that_can_not_be_drawn_fails_alone(top_p):
    logits = torch.randn(3, 50) + 10
    asks = [
        Ask(Warp(0.8, top_p=top_p, repetition_penalty=penalty), torch.Generator().manual_seed(3), {1, 2})
        for penalty in (1.0, 1e-300, 1.2)
    ]
    first, bad, last = draw(logits, asks)
    assert isinstance(bad, Exception)
    fresh = [Ask(ask.warp, torch.Generator().manual_seed(3), {1, 2}) for ask in asks]
    for place, drawn in ((0, first), (2, last)):
        assert isinstance(drawn, Draw)
        (alone,) = draw(logits[place : place + 1], fresh[place : place + 1])
        assert isinstance(alone, Draw) and alone.token == drawn.token


def test_a_row_draws_the_same_beside_any_others():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(2))

    def ask(row: int) -> Ask:
        return Ask(WARPS[row], torch.Generator().manual_seed(row))

    together = draw(logits, [ask(row) for row in range(6)])
    alone = [draw(logits[row : row + 1], [ask(row)])[0] for row in range(6)]
    assert [one and one.token for one in together] == [one and one.token for one in alone]


@pytest.mark.parametrize("penalty", [1.3, 0.7])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_repetition_penalty_is_that_of_transformers(penalty, temperature):
    logits = torch.randn(1, 40, generator=torch.Generator().manual_seed(3))
    # Seen are the likeliest tokens and the least likely ones: positive logits and negative.
    order = logits[0].argsort()
    seen = {*order[-8:].tolist(), *order[:8].tolist()}
    wanted = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([list(seen)]), logits.clone())
    for seed in range(20):
        penalised = Ask(
            Warp(temperature, repetition_penalty=penalty), torch.Generator().manual_seed(seed), seen
        )
        plain = Ask(Warp(temperature), torch.Generator().manual_seed(seed))
        (drawn,), (expected,) = draw(logits, [penalised]), draw(wanted, [plain])
        assert drawn is not None and expected is not None and drawn.token == expected.token
        assert drawn.logprob == pytest.approx(float(logits.log_softmax(-1)[0, drawn.token]), abs=1e-5)


def test_the_likeliest_tokens_are_reported_as_the_model_gave_them():
    logits = torch.randn(2, 30, generator=torch.Generator().manual_seed(4))
    asks = [
        Ask(Warp(0.3, top_k=1, repetition_penalty=5.0), torch.Generator(), {1, 2}, top=4),
        Ask(Warp(0), torch.Generator()),
    ]
    first, second = draw(logits, asks)
    assert first is not None and second is not None
    values, tokens = logits[0].log_softmax(-1).topk(4)
    assert [token for token, _ in first.top] == tokens.tolist()
    assert [value for _, value in first.top] == pytest.approx(values.tolist(), abs=1e-5)
    assert second.top == ()
