"""Making what was said fit a record: what counts stays whole, the rest is shortened as little as will do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.events import Chain, Logprobs, Result, Sample

_CAPS = (65_536, 16_384, 4_096, 1_024, 128)
_NOTE = "text shortened"


def first_bytes(text: str, most: int) -> str:
    """The text, or as much of its beginning as has ``most`` bytes in UTF-8."""
    if 4 * len(text) <= most:
        return text
    data = text.encode("utf-8", "surrogatepass")
    return text if len(data) <= most else data[:most].decode("utf-8", "ignore")


def fitted(result: Result, encode: Callable[[Result], bytes], most: int) -> bytes:
    """Encode a result in at most ``most`` bytes; 64 long chains together are more than a record takes.

    The answer and the chosen chain stay whole. A vote's wording and every other chain are cut at the
    largest of a few lengths that does, and a chain that was cut says so in its note.
    """
    value = encode(result)
    for shorter in _shorter(result):
        if len(value) <= most:
            break
        value = encode(shorter)
    return value


def fitted_sample(sample: Sample, encode: Callable[[Sample], bytes], most: int) -> bytes:
    """Encode a sample in at most ``most`` bytes: log-probabilities by token that are too many are dropped.

    Without them it fits, since ``sample_of`` bounds all else.
    """
    value = encode(sample)
    if len(value) > most and sample.logprobs is not None:
        value = encode(replace(sample, logprobs=Logprobs(sample.logprobs.top, dropped=True)))
    return value


def _shorter(result: Result) -> Iterator[Result]:
    for cap in _CAPS:
        votes = tuple(replace(vote, answer=first_bytes(vote.answer, cap)) for vote in result.votes)
        chains = tuple(
            chain if chain.sample_index == result.chosen_sample else _cut(chain, cap)
            for chain in result.reasoning
        )
        yield replace(result, votes=votes, reasoning=chains)


def _cut(chain: Chain, cap: int) -> Chain:
    text = first_bytes(chain.text, cap)
    answer = None if chain.answer is None else first_bytes(chain.answer, cap)
    if (text, answer) == (chain.text, chain.answer):
        return chain
    return replace(chain, text=text, answer=answer, note=f"{chain.note}; {_NOTE}" if chain.note else _NOTE)
