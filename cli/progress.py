"""How far a wait is, on stderr: one line written over on a terminal, else a line at each change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """Gives what shows a text; one like the last is not shown again."""
    terminal = sys.stderr.isatty()
    last = ""

    def show(text: str) -> None:
        nonlocal last
        if text == last:
            return
        click.echo(f"\r{text:<{len(last)}}" if terminal else text, err=True, nl=not terminal)
        last = text

    try:
        yield show
    finally:
        if terminal and last:
            click.echo("", err=True)
