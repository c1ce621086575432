"""The live view on a terminal, and the parts of which each demo draws its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.run import DemoRun, ProgressEvent

EVENT_LINES = 12  # number of events on the screen at most
COLORS = ("cyan", "magenta", "yellow", "green", "blue", "bright_cyan")
_TONES = {"plain": "default", "good": "green", "bad": "bold red"}
_STATES = dict.fromkeys(("stable", "serving", "running"), "green") | {"left": "dim", "suspended": "red"}
_STATES |= dict.fromkeys(("killed", "paused", "lost"), "bold red")
Cell: TypeAlias = RenderableType | int | tuple[str | int, str]
"""The content of one place of a table; a text or number may have a style."""
Row: TypeAlias = Sequence[Cell]


def frame(run: DemoRun, parts: Sequence[RenderableType], lines: int, width: int, height: int) -> Group:
    """Headline, the parts, which have so many lines, and the events for which there is room."""
    events = run.events[-max(height - lines - 3, 1) :][-EVENT_LINES:]
    return Group(_headline(run, width), Text(), *parts, Text(), *map(_line, events))


def _headline(run: DemoRun, width: int) -> Table:
    """Command and headline, on the right the time, and the address where there is room."""
    text = Text.assemble((f"{run.command}  ", "bold"), (run.headline, "bold cyan"))
    clock, address = f"{run.elapsed_s:4.1f} s", f"ZooKeeper {run.zookeeper}   "
    clock = address + clock if text.cell_len + len(address + clock) + 2 <= width else clock
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True, min_width=len(clock))
    grid.add_row(text, Text(clock, style="dim"))
    return grid


def table(columns: str, rows: Iterable[Row], widths: Sequence[int] = (), gap: int = 2) -> Table:
    """A table without rules. Names of columns are separated by commas; `>` aligns a column to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for number, name in enumerate(columns.split(",")):
        least = widths[number] if widths else None
        right = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=True, min_width=least)
    for row in rows:
        made.add_row(*map(_drawn, row))
    return made


def _drawn(cell: Cell) -> RenderableType:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(str(text), style) if isinstance(text, str | int) else text


def beside(cells: Iterable[Cell], gap: int = 2) -> Table:
    """The cells side by side."""
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_row(*map(_drawn, cells))
    return grid


def bar(done: int, total: int, width: int) -> RenderableType:
    """A progress bar; nothing where there is no room."""
    return ProgressBar(total=total or 1, completed=done, width=width) if width else Text()


def progress(counts: Mapping[str, int], total: int, width: int) -> list[Cell]:
    """Cells: each count with its name, and its bar."""
    return [cell for name, done in counts.items() for cell in (f"{name} {done:,}", bar(done, total, width))]


def state(name: str) -> Cell:
    """The state of a process."""
    return name, _STATES.get(name, "yellow")


def _line(event: ProgressEvent) -> Text:
    return Text.assemble((f"{event.at_s:5.1f} s  ", "dim"), (event.text, _TONES[event.tone]))


@contextmanager
def live_screen(console: Console) -> Iterator[Callable[[DemoRun], None]]:
    """Draws each state over the one before, on the terminal's alternate screen.

    The terminal may be resized. At the end it is as before, followed by the events.
    """
    events: Sequence[ProgressEvent] = ()
    live = Live(console=console, auto_refresh=False, screen=True)

    def show(run: DemoRun) -> None:
        nonlocal events
        events, size = run.events, console.size
        is_up = bool(run.zookeeper)  # before, there are events only
        live.update(run.draw(size.width, size.height) if is_up else Group(*map(_line, events)), refresh=True)

    try:
        with live:
            yield show
    finally:
        console.print(Group(*map(_line, events), Text()))
