"""Checks sampling parameters before a task takes a row."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pipeline.engine.base import SamplingParams
from pipeline.errors import InvalidSamplingError

MOST_TOP_LOGPROBS = 20
"""As many as OpenAI's API allows."""
_LARGEST = sys.float_info.max


def checked(params: SamplingParams) -> SamplingParams:
    """The same parameters with ``stop`` as a tuple: a lone string is one stop text, not its letters.

    Records may come from any producer, so types are checked too.

    Raises:
        InvalidSamplingError: names the parameter and its value.
    """
    _require(
        _is_number(params.temperature) and params.temperature >= 0, "temperature", params.temperature, "≥ 0"
    )
    _require(_is_number(params.top_p) and 0 < params.top_p <= 1, "top_p", params.top_p, "in (0, 1]")
    _require(_is_int(params.top_k) and params.top_k >= 0, "top_k", params.top_k, "an integer ≥ 0")
    _require(_is_number(params.min_p) and 0 <= params.min_p <= 1, "min_p", params.min_p, "in [0, 1]")
    penalty = params.repetition_penalty
    _require(
        _is_number(penalty) and 0.01 <= penalty <= 100, "repetition_penalty", penalty, "from 0.01 to 100"
    )
    budget = params.max_new_tokens
    _require(_is_int(budget) and budget >= 1, "max_new_tokens", budget, "an integer ≥ 1")
    seed = params.seed
    if seed is not None:
        _require(_is_int(seed) and -(2**63) <= seed < 2**63, "seed", seed, "a 64-bit integer")
    stop: Any = params.stop
    _require(isinstance(stop, str | tuple | list), "stop", stop, "a text or several")
    stops: tuple[Any, ...] = (stop,) if isinstance(stop, str) else tuple(stop)
    _require(all(isinstance(text, str) for text in stops), "stop", stop, "texts")
    return replace(params, stop=stops)


def checked_top_logprobs(wanted: int | None) -> int | None:
    """The same number.

    Raises:
        InvalidSamplingError: it is not 0 to ``MOST_TOP_LOGPROBS``.
    """
    if wanted is not None:
        valid = _is_int(wanted) and 0 <= wanted <= MOST_TOP_LOGPROBS
        _require(valid, "top_logprobs", wanted, f"an integer from 0 to {MOST_TOP_LOGPROBS}")
    return wanted


def _require(valid: bool, name: str, value: object, wanted: str) -> None:
    if not valid:
        raise InvalidSamplingError(f"{name} is {value!r} and must be {wanted}", field=name)


def _is_number(value: Any) -> bool:
    """Whether it is one that a float can be; written so that neither NaN nor infinity is."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
