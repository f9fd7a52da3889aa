"""What votes are worth on Abacus, whose mistakes are designed in: accuracy, calibration, tokens a right answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Final

from pipeline.bench.abacus_samples import Drawn, draw, fresh_problems
from pipeline.bench.effort import Effort
from pipeline.bench.parts import Say
from pipeline.bench.proportions import gain, in_percent, share
from pipeline.bench.rows import Bound, Goal, Row, single
from pipeline.events import Kind, Mode, Sample
from pipeline.fusion import Rule, VotePolicy, decided, equivalent, vote
from pipeline.settings import Settings
from pipeline.vote_options import vote_options

SEED: Final = 7
TEMPERATURE: Final = 1.0
"""At which a sample errs about as often as the training chains do."""
COUNTS: Final = (1, 3, 5, 15)
_LEAST_GAIN: Final = 8.0
_FEWEST_FOR_ECE: Final = 100


def abacus(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Fresh questions, 15 samples each, one greedy beside; the first k of them vote."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        note = "not measured; install: pip install -c constraints.txt -e '.[worker]'"
        yield Row("Abacus: accuracy", None, "%", note=note)
        return
    say(f"Abacus answers {effort.questions} questions, {COUNTS[-1]} samples each")
    drawn = draw(settings, fresh_problems(effort.questions, SEED), COUNTS[-1], TEMPERATURE)
    published = VotePolicy.for_mode(Mode.STANDARD, Kind.ANSWER, vote_options(settings))
    yield _accuracy("greedy, one sample", [_right(each, _answer([each.greedy], published)) for each in drawn])
    for name, policy in (("", published), (", bare majority", VotePolicy(rule=Rule.MAJORITY))):
        right = {k: [_right(each, _answer(each.samples[:k], policy)) for each in drawn] for k in COUNTS}
        for k in COUNTS:
            yield _accuracy(f"{k} samples{name}", right[k])
        goal = Goal(Bound.AT_LEAST, _LEAST_GAIN)
        yield Row(
            f"Abacus: gain from 1 to 5 samples{name}", in_percent(gain(right[1], right[5])), "points", goal
        )
    yield _calibrated(drawn, published)
    for k in COUNTS[1:]:
        yield from _tokens(drawn, k, published)


def _accuracy(name: str, right: Sequence[bool]) -> Row:
    return Row(f"Abacus: accuracy, {name}", in_percent(share(right)), "%")


def _answer(samples: Sequence[Sample], policy: VotePolicy) -> str | None:
    return vote(samples, policy).answer


def _right(each: Drawn, answer: str | None) -> bool:
    return answer is not None and equivalent(answer, str(each.problem.answer))


def _calibrated(drawn: Sequence[Drawn], policy: VotePolicy) -> Row:
    name = "Abacus: calibrated ECE of 5 samples, cross-validated"
    if len(drawn) < _FEWEST_FOR_ECE:
        return Row(name, None, "", note=f"not measured; it needs {_FEWEST_FOR_ECE} questions")
    from pipeline.calibrating.fit import fit_calibration
    from pipeline.calibrating.labelled import Labelled

    verdicts = [vote(each.samples[:5], policy) for each in drawn]
    pairs = [
        (verdict.confidence, _right(each, verdict.answer))
        for each, verdict in zip(drawn, verdicts, strict=True)
        if verdict.confidence is not None
    ]
    confidences, correct = zip(*pairs, strict=True)
    fitted = fit_calibration(Labelled(tuple(confidences), tuple(correct), len(drawn) - len(pairs)))
    note = f"raw: {fitted.before.ece_width:.3f}"
    return single(name, fitted.after.ece_width, "", note=note)


def _tokens(drawn: Sequence[Drawn], k: int, policy: VotePolicy) -> Iterable[Row]:
    """With early stop the samples are taken to come one by one, which saves the most."""
    whole = stopped = right = right_stopped = 0
    for each in drawn:
        samples = each.samples[:k]
        needed = next(n for n in range(1, k + 1) if n == k or decided(samples[:n], k, policy))
        whole += sum(sample.completion_tokens for sample in samples)
        stopped += sum(sample.completion_tokens for sample in samples[:needed])
        right += _right(each, _answer(samples, policy))
        right_stopped += _right(each, _answer(samples[:needed], policy))
    title = f"Abacus: tokens a right answer costs, {k} samples"
    yield single(title, whole / max(1, right), "tokens")
    yield single(f"{title}, lossless early stop", stopped / max(1, right_stopped), "tokens")
