"""The live view on a terminal that all demos share."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zkgroup.demo.progress import ProgressEvent

EVENT_LINES = 12
"""Number of events on the screen at most."""

_TONES = {"plain": "default", "good": "green", "bad": "bold red"}
ViewT = TypeVar("ViewT")


def headline(command: str, what: str, zookeeper: str, elapsed_s: float, width: int) -> RenderableType:
    """The first line: command and headline, on the right the time, and the address where there is room."""
    text = Text.assemble((f"{command}  ", "bold"), (what, "bold cyan"))
    clock = f"{elapsed_s:4.1f} s"
    address = f"ZooKeeper {zookeeper}   "
    if text.cell_len + len(address) + len(clock) + 2 <= width:
        clock = address + clock
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True, min_width=len(clock))
    grid.add_row(text, Text(clock, style="dim"))
    return grid


def table(*columns: tuple[str, str]) -> Table:
    """An empty table without rules; `columns` are names and alignments."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, side in columns:
        made.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    return made


def line(event: ProgressEvent) -> Text:
    """One event as a line."""
    return Text.assemble((f"{event.at_s:5.1f} s  ", "dim"), (event.text, _TONES[event.tone]))


class LiveScreen(Generic[ViewT]):
    """Draws each view over the one before, on the terminal's alternate screen.

    It reads the size for each view, so the terminal may be resized meanwhile. At the end the terminal is as
    before, followed by the events.
    """

    def __init__(self, console: Console, render: Callable[[ViewT, int, int], RenderableType]) -> None:
        """`render` draws a view for a number of columns and lines."""
        self._console = console
        self._render = render
        self._live = Live(console=console, auto_refresh=False, screen=True)
        self._events: list[ProgressEvent] = []
        self._shown = False

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
        for event in self._events:
            self._console.print(line(event))
        self._console.print()

    def on_event(self, event: ProgressEvent) -> None:
        """Keeps the event for the end; before the first view the screen shows the events alone."""
        self._events.append(event)
        if not self._shown:
            self._live.update(Group(*map(line, self._events)), refresh=True)

    def show(self, view: ViewT) -> None:
        """Shows a view in place of the one before."""
        self._shown = True
        size = self._console.size
        self._live.update(self._render(view, size.width, size.height), refresh=True)
