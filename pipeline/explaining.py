"""What a result says of itself, in words: for a terminal and for the page. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.events import Chain, HopTimings, Sureness


def note_of(chain: Chain) -> str:
    """Why it won or lost; with its parts at hand, the note's own summary of a confidence would say the same again."""
    return chain.note.partition("; confidence")[0] if chain.sureness is not None else chain.note


def sureness_parts(sure: Sureness) -> list[str]:
    """What a sample's confidence is made of; what says nothing is left out."""
    parts = [f"confidence {sure.value:.3f}", f"tokens {sure.tokens:.3f}"]
    if sure.steps_right or sure.steps_wrong:
        parts.append(f"steps: {sure.steps_right} right, {sure.steps_wrong} wrong")
    if sure.contradictions:
        parts.append(f"contradictions: {sure.contradictions}")
    if sure.derivations > 1:
        parts.append(f"derivations: {sure.derivations}")
    if sure.worth < 1:
        parts.append(f"counts as {sure.worth:.2f} of a vote: others said the same word for word")
    return parts


def hops(timings: HopTimings) -> Iterator[tuple[str, int, int]]:
    """Each step on the way from a request's creation to its result, with its begin and end in ms."""
    yield "until it was taken up", timings.created_at, timings.opened_at
    last = timings.opened_at
    if timings.first_sample_at is not None:
        yield "until the first sample", last, timings.first_sample_at
        last = timings.first_sample_at
    if timings.last_sample_at is not None and timings.last_sample_at != timings.first_sample_at:
        yield "until the last sample", last, timings.last_sample_at
        last = timings.last_sample_at
    yield "until the result", last, timings.finished_at
