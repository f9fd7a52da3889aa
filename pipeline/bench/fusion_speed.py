"""How fast answers are read and votes decided, and what answers made to be expensive cost."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.bench.drawn import samples_of
from pipeline.bench.effort import Effort
from pipeline.bench.figures import figure, percentile
from pipeline.bench.parts import Say
from pipeline.bench.pathological import PATHOLOGICAL
from pipeline.bench.rows import Bound, Goal, Row, single
from pipeline.events import Kind, Mode
from pipeline.fusion import VotePolicy, canonical, decided, estimate_confidence, extract_answer, vote
from pipeline.settings import Settings
from pipeline.vote_options import vote_options

_SAMPLES = 40
_PATIENCE = 600.0
_TICK = 0.002


def speed(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Reading short numeric answers, all of them new, and deciding a vote when its last sample has come."""
    say("reading short numeric answers")
    rates = [_rate(effort.answers, seed) for seed in range(max(1, effort.repeats))]
    yield Row(
        "short numeric answers read, of one core's time",
        figure(rates),
        "1/s",
        Goal(Bound.AT_LEAST, 20_000),
    )
    say(f"deciding votes of {_SAMPLES} samples")
    policy = VotePolicy.for_mode(Mode.DEEP, Kind.ANSWER, vote_options(settings))
    took = [_decision(seed, policy) for seed in range(effort.votes)]
    goal = Goal(Bound.AT_MOST, 10)
    yield single(f"decision after the last of {_SAMPLES} samples, p50", 1000 * percentile(took, 0.5), "ms")
    yield single(
        f"decision after the last of {_SAMPLES} samples, p99", 1000 * percentile(took, 0.99), "ms", goal
    )


def numeric_answers(count: int, seed: int) -> list[str]:
    """Different short answers as models write them: integers, decimals, fractions, money, percent, thousands."""
    chance = random.Random(seed)
    forms: tuple[Callable[[int], str], ...] = (
        str,
        lambda n: str(-n),
        lambda n: f"{n / 100:.2f}",
        lambda n: f"{n:,}",
        lambda n: f"${n}",
        lambda n: f"{n}%",
        lambda n: f"{n}/{n + 7}",
        lambda n: f"{n}.0",
    )
    numbers = chance.sample(range(1_000, 1_000 + 20 * count), count)
    return [chance.choice(forms)(number) for number in numbers]


def _rate(count: int, seed: int) -> float:
    answers = numeric_answers(count, seed)
    started = time.process_time()
    for answer in answers:
        canonical(answer)
    return count / (time.process_time() - started)


def _decision(seed: int, policy: VotePolicy) -> float:
    """Seconds from the last sample's arrival to the verdict; the others were seen as they came."""
    chance = random.Random(seed)
    lead = chance.randrange(10, 10_000)
    texts: list[str] = []
    for _ in range(_SAMPLES):
        answer = lead if chance.random() < 0.5 else lead + chance.randrange(1, 30)
        a = chance.randrange(1, 10)
        texts.append(f"First {a} + {answer - a} = {answer}, so it is {answer}.\nThe answer is {answer}.")
    samples = samples_of(texts)
    for seen in range(1, _SAMPLES):
        decided(samples[:seen], _SAMPLES, policy)
    started = time.perf_counter()
    decided(samples, _SAMPLES, policy)
    vote(samples, policy)
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the whole set: the slowest answer and its seconds, the longest the loop stood still (s), memory (bytes)."""

    slowest: str
    seconds: float
    stalled: float
    memory: int


def pathological_answers(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Each is read on a thread beside a running event loop, in a process of its own."""
    say(f"reading {len(PATHOLOGICAL)} answers made to be expensive")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_read_all, args=(dict(PATHOLOGICAL), there))
    child.start()
    there.close()
    try:
        found: Cost | None = here.recv() if here.poll(_PATIENCE) else None
    except EOFError:
        found = None
    finally:
        child.kill()
        child.join()
    if found is None:
        yield Row(
            "pathological answers", None, "s", Goal(Bound.AT_MOST, 5), "not measured; the reader was ended"
        )
        return
    name = f"pathological answers, CPU time of the slowest ({found.slowest})"
    yield single(name, found.seconds, "s", Goal(Bound.AT_MOST, 5))
    yield single("pathological answers, memory", found.memory / 2**20, "MiB", Goal(Bound.AT_MOST, 512))
    yield single(
        "pathological answers, the loop stood still", 1000 * found.stalled, "ms", Goal(Bound.AT_MOST, 100)
    )


def _read_all(answers: Mapping[str, str], told: Connection) -> None:
    told.send(asyncio.run(_beside_a_loop(answers)))


async def _beside_a_loop(answers: Mapping[str, str]) -> Cost:
    """Times are of the process's CPU, so that a busy machine does not count: a thread that holds the interpreter
    spends as much of it as the loop stands still."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(_TICK)
            now = time.process_time()
            gaps.append(now - last)
            last = now

    ticking = asyncio.create_task(tick())
    before = _most_memory()
    took: dict[str, float] = {}
    for name, answer in answers.items():
        started = time.process_time()
        await asyncio.to_thread(_read, answer)
        took[name] = time.process_time() - started
    ticking.cancel()
    slowest = max(took, key=lambda name: took[name])
    return Cost(slowest, took[slowest], max(gaps, default=0.0), _most_memory() - before)


def _most_memory() -> int:
    """Bytes that this process ever held; ``getrusage`` would count its parent's."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0


def _read(answer: str) -> None:
    canonical(answer)
    estimate_confidence(answer, extract_answer(answer), None)
