"""How offsets of groups look in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from pipeline.commands.show import cell, grid
from pipeline.offsets.reset import Move
from pipeline.offsets.standing import Committed, Group


def group_line(group: Group) -> Text:
    """The group and who is in it."""
    if not group.members:
        return Text(f"{group.name}: no members", style="yellow")
    members = [
        f"{each.name} at {each.host}, {each.partitions} partition{'' if each.partitions == 1 else 's'}"
        for each in group.members
    ]
    return cell(f"{group.name}: {'; '.join(members)}")


def group_table(group: Group) -> Table:
    """One partition a row."""
    table = grid(
        "topic", "p", "committed", "end", "lag", "finished ahead", "", right=("p", "committed", "end", "lag")
    )
    for each in group.offsets:
        table.add_row(
            *_place(each),
            _committed(each),
            str(each.end),
            str(each.lag),
            _finished(each),
            Text("" if each.stable else "an open transaction is about to change it", style="yellow"),
        )
    return table


def move_table(moves: Sequence[Move]) -> Table:
    """What a reset sets, one partition a row."""
    table = grid("topic", "p", "committed", "to", "by", "forgets", right=("p", "committed", "to", "by"))
    for move in moves:
        by = "stays" if move.needless else f"{move.by:+}"
        finished = _finished(move.before)
        forgets = "" if move.needless or not finished else f"{finished} finished"
        table.add_row(*_place(move.before), _committed(move.before), str(move.to), by, forgets)
    return table


def offset_objects(group: Group) -> Iterator[dict[str, Any]]:
    """One object a partition, for ``--json``; ``finished`` holds the numbers of the finished tasks by offset."""
    for each in group.offsets:
        yield {
            "agent": group.role,
            "group": group.name,
            "members": [member.name for member in group.members],
            "topic": each.place[0],
            "partition": each.place[1],
            "committed": each.position.offset if each.position else None,
            "first": each.first,
            "end": each.end,
            "lag": each.lag,
            "stable": each.stable,
            "finished": {str(offset): _tasks(bitmap) for offset, bitmap in each.finished.items()},
            "metadata": each.position.metadata if each.position else "",
        }


def _place(each: Committed) -> tuple[str, str]:
    return each.place[0], str(each.place[1])


def _committed(each: Committed) -> str:
    return "—" if each.position is None else str(each.position.offset)


def _finished(each: Committed) -> str:
    """Tasks that are finished at or above the position, and in how many records."""
    if not (finished := each.finished):
        return ""
    return f"{sum(bitmap.bit_count() for bitmap in finished.values())} in {len(finished)}"


def _tasks(bitmap: int) -> list[int]:
    return [task for task in range(bitmap.bit_length()) if bitmap >> task & 1]
