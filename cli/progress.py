"""How far a wait is, on stderr: one line written over on a terminal, else a line at each change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress_line() -> Iterator[Callable[[str, object], None]]:
    """Gives what shows a text; off a terminal only when the second argument is another than last time."""
    terminal = sys.stderr.isatty()
    last, last_key = "", object()

    def show(text: str, key: object) -> None:
        nonlocal last, last_key
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
