"""A result taken apart, for a terminal: the verdict, its groups, every chain, the time and the tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from pipeline.commands.show import one_line, status_text
from pipeline.events import Chain, HopTimings, Result
from pipeline.explaining import hops, note_of, sureness_parts

_LINES, _WIDTH = 12, 400
"""Of a chain's text, unless all of it is asked for."""
_BAR = 24


def explanation(result: Result, *, full: bool = False) -> RenderableType:
    """Everything that a result says about itself; what it does not carry is left out."""
    groups = {index: place for place, vote in enumerate(result.votes, 1) for index in vote.samples}
    parts: list[RenderableType] = [_head(result)]
    if result.votes:
        parts += [_heading("groups"), _votes(result)]
    if result.reasoning:
        parts.append(_heading("chains"))
        parts += [part for chain in result.reasoning for part in _chain(chain, result, groups, full)]
    parts += [_heading("time"), _times(result.timings), Text(), _usage(result)]
    return Group(*parts)


def _head(result: Result) -> RenderableType:
    title = Text.assemble(status_text(result.status), f"  {result.request_id}")
    facts = [f"{result.mode.value} · {result.kind.value} · priority {result.priority}"]
    facts.append(f"run {result.run} · revision {result.revision}")
    if result.confidence is not None:
        facts.append(f"confidence {result.confidence:.3f}")
    if result.why:
        facts.append(_clean(result.why))
    lines: list[Text] = []
    if result.answer is not None:
        lines.append(Text(_clean(result.answer), style="bold"))
    if result.clarifying_question:
        lines.append(Text(_clean(result.clarifying_question), style="yellow"))
    if result.error is not None:
        lines.append(Text(_clean(f"{result.error.code}: {result.error.message}"), style="red"))
    lines.append(Text("\n".join(facts), style="dim"))
    return Panel(Text("\n").join(lines), title=title, title_align="left", expand=False)


def _votes(result: Result) -> RenderableType:
    compared = any(vote.review is not None for vote in result.votes)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("answer")
    for name in ("votes", "share", "confidence", *(("compared",) if compared else ()), "score"):
        table.add_column(name, justify="right")
    table.add_column("samples")
    total = sum(vote.count for vote in result.votes) or 1
    for place, vote in enumerate(result.votes, 1):
        cells = [str(vote.count), f"{vote.count / total:.0%}", f"{vote.confidence:.3f}"]
        if compared:
            cells.append("" if vote.review is None else f"won {vote.review:.0%}")
        samples = " ".join(f"#{index}" for index in vote.samples)
        answer = Text(one_line(_clean(vote.answer), 60))
        style = "bold" if place == 1 else ""
        table.add_row(f"{place}.", answer, *cells, f"{vote.score:.3f}", samples, style=style)
    return table


def _chain(chain: Chain, result: Result, groups: Mapping[int, int], full: bool) -> Iterator[RenderableType]:
    chosen = chain.sample_index == result.chosen_sample
    group = groups.get(chain.sample_index)
    head = Text.assemble(
        (f"{'→' if chosen else ' '} #{chain.sample_index}", "bold green" if group == 1 else "bold"),
        f"  {chain.path}",
        f" · {chain.role.value}",
        f" · ended by {chain.finish_reason.value}",
    )
    if chain.answer is not None:
        place = f", group {group}" if group is not None else ""
        head.append(f" · {one_line(_clean(chain.answer), 60)}{place}, score {chain.score:.3f}", style="cyan")
    yield head
    if note := note_of(chain):
        yield Padding(Text(_clean(note), style="dim"), (0, 0, 0, 5), expand=False)
    if chain.sureness is not None and chain.answer is not None:
        yield Padding(
            Text(" · ".join(sureness_parts(chain.sureness)), style="dim"), (0, 0, 0, 5), expand=False
        )
    yield Padding(Text(_cut(_clean(chain.text), full)), (0, 0, 1, 5), expand=False)


def _times(timings: HopTimings) -> RenderableType:
    """A bar a hop, on the way from the request's creation to its result."""
    table = Table(box=None, pad_edge=False, show_header=False)
    whole = max(1, timings.finished_at - timings.created_at)
    for name, start, end in hops(timings):
        took, before = max(0, end - start), max(0, start - timings.created_at)
        bar = " " * round(_BAR * before / whole) + "━" * max(1, round(_BAR * took / whole))
        table.add_row(
            name, Text(f"{took / 1000:.3f} s", justify="right"), Text(bar[: _BAR + 1], style="cyan")
        )
    table.add_row("in all", Text(f"{whole / 1000:.3f} s", justify="right"), "")
    return table


def _usage(result: Result) -> Text:
    usage = result.usage
    told = (
        f"{usage.samples_used} of {usage.samples_expected} samples voted · "
        f"{usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written"
    )
    if usage.cached_samples:
        told += f", {usage.cached_samples} from the answer cache"
    return Text(
        told + (f", {usage.saved_tokens:,} saved by stopping early" if usage.saved_tokens else ""), "dim"
    )


def _heading(name: str) -> RenderableType:
    return Rule(name, align="left", style="dim")


def _cut(text: str, full: bool) -> str:
    if full:
        return text
    lines = text.splitlines()
    shown = "\n".join(one_line(line, _WIDTH) if len(line) > _WIDTH else line for line in lines[:_LINES])
    left = len(lines) - _LINES
    return f"{shown}\n… {left} more lines (--full)" if left > 0 else shown


def _clean(text: str) -> str:
    """What a model or a stranger wrote, without what could move a terminal's cursor."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
