"""Output: data to stdout in the format asked for, everything else to stderr; text tables, progress.

Names, settings and data are chosen by whoever can write to ZooKeeper or to a broker. Each way out has one
function at its end, which escapes what a terminal or a spreadsheet would act on: `_for_people` for lines,
`message_text` for stderr, `_json_text` and `_csv`.

A table fits the terminal. Columns that name things are shortened first, in their middle (the ends
distinguish ids), texts go on in further lines or below their row, then the least important columns are left
out and named below the table. Without a width nothing is shortened.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

import click

from zkgroup.model.text import csv_cell, escaped

FORMATS = ("table", "json", "csv", "ndjson")

_STYLES: Mapping[str, Mapping[str, Any]] = {
    "header": {"bold": True},
    "bold": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
    "name": {"fg": "cyan"},
}

JsonObject = Mapping[str, Any]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Output:
    """The form and the streams of one command's output."""

    format: str
    color: bool
    width: int | None
    """Columns of the terminal; None: do not shorten anything (a pipe or a file)."""
    stderr: bool = False
    """To stderr instead: what should be read before the data."""
    indent: int | None = None
    """Of JSON documents, on a terminal only: without it they are written several times as fast."""
    whole: bool = False
    """`ndjson` has one line for a document, not one for each of its rows."""

    @classmethod
    def of_this_process(cls, output_format: str, *, whole: bool = False) -> Output:
        """As stdout is: colour and width only on a terminal, no colour under NO_COLOR."""
        terminal = sys.stdout.isatty()
        color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        columns = os.environ.get("COLUMNS", "")
        if terminal:
            width: int | None = shutil.get_terminal_size().columns
        else:
            width = int(columns) if columns.isdecimal() and int(columns) > 0 else None
        return cls(output_format, color, width, indent=2 if terminal else None, whole=whole)

    @property
    def is_table(self) -> bool:
        return self.format == "table"

    def paint(self, text: str, style: str) -> str:
        if not self.color:
            return plain(text, style)
        return click.style(escaped(text, keep="\t"), **_STYLES[style]).replace("\x1b[", _ESC)

    def line(self, text: str = "") -> None:
        """A line of data for a person; dropped where nobody reads on."""
        with dropped():
            self.event_line(text)

    def table(self, columns: Sequence[TableColumn[R]], rows: Iterable[R]) -> None:
        for text in render(columns, rows, width=self.width, paint=self.paint):
            self.line(text)

    def event(self, document: JsonObject) -> None:
        """One object on one line, at once. Raises BrokenPipeError."""
        click.echo(_json_text(document, separators=_COMPACT), color=False)
        sys.stdout.flush()

    def event_line(self, text: str) -> None:
        """One line for a person. Raises BrokenPipeError, so that what runs on and on ends."""
        click.echo(_for_people(text), err=self.stderr, color=self.color)

    def document(self, document: JsonObject, rows: str | None = None, columns: Sequence[str] = ()) -> bool:
        """Prints the document unless the format is `table`; returns whether it did.

        `rows` names the list whose items are the lines of `csv` and `ndjson`; without it the document
        is one line. `columns` are the csv columns, needed where the list may be empty.
        """
        if self.format == "table":
            return False
        with dropped():
            self._print(document, rows, columns)
        return True

    def _print(self, document: JsonObject, rows: str | None, columns: Sequence[str]) -> None:
        if self.format == "json":
            click.echo(_json_text(document, self.indent), color=False)
            return
        items: Sequence[JsonObject] = document[rows] if rows and not self.whole else [document]
        if self.format == "ndjson":
            for item in items:
                self.event(item)
        else:
            click.echo(_csv(items, columns or tuple(items[0] if items else ())), nl=False, color=False)


@contextmanager
def dropped() -> Iterator[None]:
    """Drops the rest of the block's output once the reader of stdout has closed the pipe (`| head`).

    The command goes on: its exit code is the same whether or not all was read.
    """
    try:
        yield
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Sends what is still printed to nowhere; keeps the interpreter's exit quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def echo_err(text: str) -> None:
    """Prints a message, which is not data, on stderr."""
    click.echo(message_text(text), err=True)


def message_text(text: str) -> str:
    """A message for stderr; further lines are indented, so that none looks like a message of its own."""
    return escaped(text, keep="\n\t").replace("\n", "\n  ")


_ESC = f"<{secrets.token_hex(16)}>"
"""In place of the escape character of our own colours, which is all that `_for_people` lets through."""


def _for_people(text: str) -> str:
    """A line as it is printed."""
    return escaped(text, keep="\t").replace(_ESC, "\x1b[")


def _json_text(value: object, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """JSON without characters that are not printable: they are JSON's own escapes, so no value changes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    if text.isascii() and "\x7f" not in text:
        return text  # of many megabytes this is known at once
    return _NOT_ASCII.sub(_json_escaped, text)


_COMPACT = (",", ":")
_NOT_ASCII = re.compile("[^\n -~]+")


def _json_escaped(found: re.Match[str]) -> str:
    text = found[0]
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _csv(items: Sequence[JsonObject], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for item in items:
        writer.writerow([_csv_value(item.get(column)) for column in columns])
    return text.getvalue()


def _csv_value(value: object) -> object:
    """The text of a cell, on one line; a spreadsheet takes none for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return _json_text(value, separators=_COMPACT)
    return csv_cell(escaped(value)) if isinstance(value, str) else value


GUTTER = "  "
INDENT = "    "
"""Before what is below a row."""
ELLIPSIS = "…"

Shorten = Literal["no", "middle", "end", "wrap", "below"]
"""`wrap` and `below` cut nothing: the text goes on in further lines.

With `wrap` they are below its column. With `below`, which is for the last column, they are below the row
from its left side on, where the table is too wide otherwise.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a style name (`good`, `bad`, `warn`, `dim`, `bold`)."""

    text: str
    style: str | None = None


CellValue = Cell | str | int | None


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[R]):
    """One column: its header, the cell of each row, and how it is cut on a narrow terminal."""

    header: str
    value: Callable[[R], CellValue]
    """The cell of a row; None where the value is unknown."""
    _: KW_ONLY
    right: bool = False
    shorten: Shorten = "no"
    least: int = 12
    """Width below which a shortened column is not squeezed further."""
    rank: int = 0
    """Columns of the highest rank are left out first; rank 0 never."""
    lines: int | None = None
    """Lines of a `wrap`; what is longer ends in an ellipsis. None: as many as it needs."""


Paint = Callable[[str, str], str]
"""Applies a style name to text; the identity where there is no colour."""


def plain(text: str, style: str) -> str:
    """The paint of a terminal without colour."""
    return text


def render(
    columns: Sequence[TableColumn[R]], rows: Iterable[R], *, width: int | None = None, paint: Paint = plain
) -> list[str]:
    """The table as lines without trailing blanks; a last line names the columns left out, if any."""
    cells = [[_cell(column.value(row)) for column in columns] for row in rows]
    inside = list(columns)
    if width is not None and _is_below(columns, cells, width):
        inside = inside[:-1]
    visible, widths = _fit(inside, cells, width)
    shown = [inside[i] for i in visible]
    lines = [_line([Cell(column.header, "header") for column in shown], shown, widths, paint)]
    for row in cells:
        lines += [
            _line(line, shown, widths, paint) for line in _wrapped([row[i] for i in visible], shown, widths)
        ]
        if width is not None and len(inside) < len(columns):
            lines += _below(row[-1], width, paint)
    hidden = [column.header for i, column in enumerate(inside) if i not in visible]
    if hidden:
        lines.append(paint(f"left out for the width: {', '.join(hidden)}", "dim"))
    return lines


def shorten(text: str, width: int, how: Shorten) -> str:
    """At most `width` characters; the middle or the end becomes an ellipsis."""
    if len(text) <= width or how in ("no", "wrap", "below"):
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    if how == "end":
        return text[: width - 1] + ELLIPSIS
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + ELLIPSIS + (text[-tail:] if tail else "")


def short_name(text: str) -> str:
    """A name in a headline that a client has chosen: printable, and at most 40 characters."""
    return shorten(escaped(text), 40, "end")


def _wrapped(
    cells: Sequence[Cell], columns: Sequence[TableColumn[Any]], widths: Sequence[int]
) -> Iterator[list[Cell]]:
    """The lines of one row: one, unless a column wraps its text."""
    parts = [
        _lines_of(cell.text, width, column.lines)
        if column.shorten in ("wrap", "below") and len(cell.text) > width
        else [cell.text]
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    for texts in zip_longest(*parts, fillvalue=""):
        yield [Cell(text, cell.style) for text, cell in zip(texts, cells, strict=True)]


class _Wrapper(textwrap.TextWrapper):
    """Breaks a word that is longer than a line behind a `_` or a `/`, where it has one."""

    def _handle_long_word(
        self, reversed_chunks: list[str], cur_line: list[str], cur_len: int, width: int
    ) -> None:
        word, room = reversed_chunks[-1], max(width - cur_len, 0)
        end = max(word.rfind(mark, 0, room) for mark in "_/") + 1
        if end:
            cur_line.append(word[:end])
            reversed_chunks[-1] = word[end:]
        else:
            super()._handle_long_word(reversed_chunks, cur_line, cur_len, width)


def _lines_of(text: str, width: int, at_most: int | None) -> list[str]:
    wrapper = _Wrapper(width, break_on_hyphens=False, max_lines=at_most, placeholder=ELLIPSIS)
    return wrapper.wrap(text) or [""]


def _is_below(columns: Sequence[TableColumn[Any]], rows: Sequence[Sequence[Cell]], width: int) -> bool:
    """Returns whether the last column is `below` and does not fit beside all the others."""
    if columns[-1].shorten != "below":
        return False
    return _least(columns, _natural(columns, rows), range(len(columns))) > width


def _below(cell: Cell, width: int, paint: Paint) -> Iterator[str]:
    """The lines below a row."""
    for line in _lines_of(cell.text, max(width - len(INDENT), 1), None):
        yield INDENT + (paint(line, cell.style) if cell.style else line)


def _cell(value: CellValue) -> Cell:
    if value is None:
        return Cell("-", "dim")
    cell = value if isinstance(value, Cell) else Cell(str(value))
    return cell if cell.text.isprintable() else Cell(escaped(cell.text), cell.style)


def _fit(
    columns: Sequence[TableColumn[Any]], rows: Sequence[Sequence[Cell]], width: int | None
) -> tuple[list[int], list[int]]:
    natural = _natural(columns, rows)
    visible = list(range(len(columns)))
    if width is None:
        return visible, natural
    while _least(columns, natural, visible) > width:
        rank = max(columns[i].rank for i in visible)
        if rank == 0:
            break
        visible.remove(max(i for i in visible if columns[i].rank == rank))
    widths = {i: natural[i] for i in visible}
    over = sum(widths.values()) + len(GUTTER) * (len(visible) - 1) - width
    while over > 0:
        squeezable = [
            i for i in visible if columns[i].shorten != "no" and widths[i] > _floor(columns[i], natural[i])
        ]
        if not squeezable:
            break
        widest = max(squeezable, key=lambda i: widths[i])
        widths[widest] -= 1
        over -= 1
    return visible, [widths[i] for i in visible]


def _natural(columns: Sequence[TableColumn[Any]], rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max([len(column.header), *(len(row[i].text) for row in rows)]) for i, column in enumerate(columns)
    ]


def _floor(column: TableColumn[Any], natural: int) -> int:
    return natural if column.shorten == "no" else min(natural, max(column.least, len(column.header)))


def _least(columns: Sequence[TableColumn[Any]], natural: Sequence[int], visible: Sequence[int]) -> int:
    return sum(_floor(columns[i], natural[i]) for i in visible) + len(GUTTER) * (len(visible) - 1)


def _line(
    cells: Sequence[Cell], columns: Sequence[TableColumn[Any]], widths: Sequence[int], paint: Paint
) -> str:
    parts = []
    for position, (cell, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        text = shorten(cell.text, width, column.shorten)
        last = position == len(cells) - 1
        padding = " " * (width - len(text))
        painted = paint(text, cell.style) if cell.style and text else text
        parts.append(padding + painted if column.right else painted + ("" if last else padding))
    return GUTTER.join(parts).rstrip()


@contextmanager
def progress_line() -> Iterator[Callable[[str, object], None]]:
    """Yields a function that shows a text; off a terminal only when its second argument has changed."""
    terminal = sys.stderr.isatty()
    last, last_key = "", object()

    def show(text: str, key: object) -> None:
        nonlocal last, last_key
        text = escaped(text)
        if terminal:
            click.echo(f"\r{text:<{len(last)}}", err=True, nl=False)
        elif key != last_key:
            click.echo(text, err=True)
        last, last_key = text, key

    try:
        yield show
    finally:
        if terminal and last:
            click.echo("", err=True)
