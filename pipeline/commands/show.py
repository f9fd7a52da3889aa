"""How results look in a terminal."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pipeline.events import Result, Status

_COLOURS = {
    Status.DONE: "green",
    Status.FIRST_ANSWER: "cyan",
    Status.PARTIAL_DONE: "yellow",
    Status.NEEDS_CLARIFICATION: "yellow",
    Status.CANCELLED: "yellow",
    Status.FAILED: "red",
}


def status_text(status: Status) -> Text:
    return Text(status.value, style=_COLOURS.get(status, "dim"))


def cell(text: str) -> Text:
    """What others wrote, shown as it is: no markup and no control characters."""
    return Text("".join(char if char.isprintable() else "\ufffd" for char in text))


def grid(*names: str, right: Collection[str] = ()) -> Table:
    """A table without lines; the columns in ``right`` hold numbers."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def one_line(text: str, width: int) -> str:
    """The text on one line, cut with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def result_view(result: Result) -> RenderableType:
    """The answer, the votes and the chains of one result."""
    parts: list[RenderableType] = []
    title = Text.assemble(status_text(result.status), f"  {result.request_id}")
    if result.error is not None:
        parts.append(Text(f"{result.error.code}: {result.error.message}", style="red"))
    if result.clarifying_question is not None:
        parts.append(Text(result.clarifying_question, style="yellow"))
    if result.answer is not None:
        parts.append(Panel(Text(result.answer, style="bold"), title=title, title_align="left", expand=False))
    else:
        parts.append(title)
    if result.votes:
        votes = Table(title="votes", title_justify="left", box=None, pad_edge=False)
        for name in ("answer", "count", "confidence", "score", "samples"):
            votes.add_column(name, justify="left" if name in ("answer", "samples") else "right")
        for vote in result.votes:
            votes.add_row(
                one_line(vote.answer, 60),
                str(vote.count),
                f"{vote.confidence:.2f}",
                f"{vote.score:.2f}",
                " ".join(map(str, vote.samples)),
            )
        parts.append(votes)
    if result.reasoning:
        chains = Table(title="chains", title_justify="left", box=None, pad_edge=False)
        for name in ("#", "path", "answer", "score", "text", "note"):
            chains.add_column(name, overflow="fold")
        for chain in result.reasoning:
            mark = "→" if chain.sample_index == result.chosen_sample else " "
            chains.add_row(
                f"{mark}{chain.sample_index}",
                chain.path,
                one_line(chain.answer or "—", 30),
                f"{chain.score:.2f}",
                one_line(chain.text, 160),
                chain.note,
            )
        parts.append(chains)
    took = (result.timings.finished_at - result.timings.created_at) / 1000
    used = f"{result.usage.samples_used} of {result.usage.samples_expected} samples"
    parts.append(Text(f"{took:.2f} s · {used} · {result.usage.completion_tokens} tokens", style="dim"))
    return Group(*parts)
