"""Where results go: data to stdout in the format asked for, everything else to stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from .tables import Column, Row, plain, render
from .units import is_whole

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

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Output:
    """One command's way out."""

    format: str
    color: bool
    width: int | None
    """Columns of the terminal; None: do not shorten anything (a pipe or a file)."""
    aside: bool = False
    """To stderr instead: what a person should see before the data."""
    indent: int | None = None
    """Of JSON documents. Only for eyes: without it they are written several times as fast."""

    @classmethod
    def of_this_process(cls, output_format: str) -> Output:
        """As stdout is: colour and width only on a terminal, no colour under NO_COLOR."""
        terminal = sys.stdout.isatty()
        color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        columns = os.environ.get("COLUMNS", "")
        if terminal:
            width: int | None = shutil.get_terminal_size().columns
        else:
            width = int(columns) if is_whole(columns) and int(columns) > 0 else None
        return cls(output_format, color, width, indent=2 if terminal else None)

    @property
    def is_table(self) -> bool:
        return self.format == "table"

    def paint(self, text: str, style: str) -> str:
        return click.style(text, **_STYLES[style]) if self.color else plain(text, style)

    def line(self, text: str = "") -> None:
        """A line of data for a person."""
        click.echo(text, err=self.aside, color=self.color)

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        for text in render(columns, rows, width=self.width, paint=self.paint):
            self.line(text)

    def event(self, document: Document) -> None:
        """One object on one line, at once."""
        click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")), color=False)
        sys.stdout.flush()

    def document(self, document: Document, rows: str | None = None, columns: Sequence[str] = ()) -> bool:
        """Prints the document unless the format is `table`; says whether it did.

        `rows` names the list whose items are the lines of `csv` and `ndjson`; without it the document
        is one line. `columns` are the csv columns, needed where the list may be empty.
        """
        if self.format == "table":
            return False
        if self.format == "json":
            click.echo(json.dumps(document, ensure_ascii=False, indent=self.indent), color=False)
            return True
        items: Sequence[Document] = document[rows] if rows else [document]
        if self.format == "ndjson":
            for item in items:
                self.event(item)
        else:
            click.echo(_csv(items, columns or tuple(items[0] if items else ())), nl=False, color=False)
        return True


def say(text: str) -> None:
    """Something for the person at the terminal that is not the data asked for: to stderr."""
    click.echo(text, err=True)


def _csv(items: Sequence[Document], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for item in items:
        writer.writerow([_csv_value(item.get(column)) for column in columns])
    return text.getvalue()


def _csv_value(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value
