"""One line on stderr that is written over, for work that takes a while; for a person at a terminal only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click

FIRST_AFTER_S = 0.5
"""What is done before that needs no line."""
EVERY_S = 0.2


class Progress(Protocol):
    """Told as often as there is something to tell; writes seldom."""

    def __call__(self, what: str, count: int | None = None) -> None: ...


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """The line is gone when the block ends, however it ends."""
    wanted = sys.stderr.isatty() and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    next_s, width = clock() + FIRST_AFTER_S, 0

    def show(what: str, count: int | None = None) -> None:
        nonlocal next_s, width
        now = clock()
        if not wanted or now < next_s:
            return
        next_s = now + EVERY_S
        text = what if count is None else f"{what} {count:,}"
        click.echo(f"\r{text:<{width}}", err=True, nl=False)
        width = len(text)

    try:
        yield show
    finally:
        if width:
            click.echo(f"\r{' ' * width}\r", err=True, nl=False)
