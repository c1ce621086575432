"""Text tables that fit the terminal. Pure: values in, lines out.

Columns that name things give way first in their middle (both ends of an id tell it apart), then the
least important columns are left out and named below the table. Without a width nothing is shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

GUTTER = "  "
ELLIPSIS = "…"

Shorten = Literal["no", "middle", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: what it is called and how it gives way."""

    header: str
    right: bool = False
    shorten: Shorten = "no"
    least: int = 12
    """Width below which a shortened column is not squeezed further."""
    rank: int = 0
    """Columns of the highest rank are left out first; rank 0 never."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a style name (`good`, `bad`, `warn`, `dim`, `bold`)."""

    text: str
    style: str | None = None


Row = Sequence[Cell | str | int | None]
Paint = Callable[[str, str], str]
"""Applies a style name to text; the identity where there is no colour."""


def plain(text: str, style: str) -> str:
    """The paint of a terminal without colour."""
    return text


def render(
    columns: Sequence[Column], rows: Sequence[Row], *, width: int | None = None, paint: Paint = plain
) -> list[str]:
    """The table as lines without trailing blanks; a last line names the columns left out, if any."""
    cells = [[_cell(value) for value in row] for row in rows]
    kept, widths = _fit(columns, cells, width)
    lines = [
        _line([Cell(columns[i].header, "header") for i in kept], [columns[i] for i in kept], widths, paint),
        *(_line([row[i] for i in kept], [columns[i] for i in kept], widths, paint) for row in cells),
    ]
    hidden = [column.header for i, column in enumerate(columns) if i not in kept]
    if hidden:
        lines.append(paint(f"left out for the width: {', '.join(hidden)}", "dim"))
    return lines


def shorten(text: str, width: int, how: Shorten) -> str:
    """At most `width` characters; the middle or the end gives way to an ellipsis."""
    if len(text) <= width or how == "no":
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    if how == "end":
        return text[: width - 1] + ELLIPSIS
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + ELLIPSIS + (text[-tail:] if tail else "")


def printable(text: str, keep: str = "") -> str:
    """Text of a foreign znode without what would move a terminal's cursor or change its colours."""
    return "".join(character if character.isprintable() or character in keep else "·" for character in text)


def _cell(value: Cell | str | int | None) -> Cell:
    if value is None:
        return Cell("-", "dim")
    cell = value if isinstance(value, Cell) else Cell(str(value))
    return cell if cell.text.isprintable() else Cell(printable(cell.text), cell.style)


def _fit(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None
) -> tuple[list[int], list[int]]:
    natural = [
        max([len(column.header), *(len(row[i].text) for row in rows)]) for i, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    if width is None:
        return kept, natural
    while _least(columns, natural, kept) > width:
        rank = max(columns[i].rank for i in kept)
        if rank == 0:
            break
        kept.remove(max(i for i in kept if columns[i].rank == rank))
    widths = {i: natural[i] for i in kept}
    over = sum(widths.values()) + len(GUTTER) * (len(kept) - 1) - width
    while over > 0:
        squeezable = [
            i for i in kept if columns[i].shorten != "no" and widths[i] > _floor(columns[i], natural[i])
        ]
        if not squeezable:
            break
        widest = max(squeezable, key=lambda i: widths[i])
        widths[widest] -= 1
        over -= 1
    return kept, [widths[i] for i in kept]


def _floor(column: Column, natural: int) -> int:
    return natural if column.shorten == "no" else min(natural, max(column.least, len(column.header)))


def _least(columns: Sequence[Column], natural: Sequence[int], kept: Sequence[int]) -> int:
    return sum(_floor(columns[i], natural[i]) for i in kept) + len(GUTTER) * (len(kept) - 1)


def _line(cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int], paint: Paint) -> str:
    parts = []
    for position, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        text = shorten(cell.text, width, column.shorten)
        last = position == len(cells) - 1
        padding = " " * (width - len(text))
        painted = paint(text, cell.style) if cell.style and text else text
        parts.append(padding + painted if column.right else painted + ("" if last else padding))
    return GUTTER.join(parts).rstrip()
