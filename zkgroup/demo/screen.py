"""The live view on a terminal, for the views of all demos."""

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
"""At most so many lines of the story are on the screen."""

_TONES = {"plain": "default", "good": "green", "bad": "bold red"}
ViewT = TypeVar("ViewT")


def headline(command: str, what: str, zookeeper: str, elapsed_s: float, width: int) -> RenderableType:
    """What is going on, and on the right the time; the address where there is room."""
    told = Text.assemble((f"{command}  ", "bold"), (what, "bold cyan"))
    clock = f"{elapsed_s:4.1f} s"
    address = f"ZooKeeper {zookeeper}   "
    if told.cell_len + len(address) + len(clock) + 2 <= width:
        clock = address + clock
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(told, Text(clock, style="dim"))
    return grid


def table(*columns: tuple[str, str]) -> Table:
    """An empty one without lines; each column's name, and the side it is set on."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, side in columns:
        made.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    return made


def line(happening: ProgressEvent) -> Text:
    """One line of the story."""
    return Text.assemble((f"{happening.at_s:5.1f} s  ", "dim"), (happening.text, _TONES[happening.tone]))


class LiveScreen(Generic[ViewT]):
    """Draws each scene over the one before, on the terminal's alternate screen.

    The size is asked for with each scene, so the terminal may be resized meanwhile. At the end the
    terminal is as before, with the story below.
    """

    def __init__(self, console: Console, render: Callable[[ViewT, int, int], RenderableType]) -> None:
        """`render` draws a scene for so many columns and lines."""
        self._console = console
        self._render = render
        self._live = Live(console=console, auto_refresh=False, screen=True)
        self._story: list[ProgressEvent] = []
        self._shown = False

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
        for happening in self._story:
            self._console.print(line(happening))
        self._console.print()

    def happened(self, happening: ProgressEvent) -> None:
        """Kept for the end; meanwhile the story is part of each scene, and all there is before the first."""
        self._story.append(happening)
        if not self._shown:
            self._live.update(Group(*map(line, self._story)), refresh=True)

    def show(self, scene: ViewT) -> None:
        """Replaces the present picture."""
        self._shown = True
        size = self._console.size
        self._live.update(self._render(scene, size.width, size.height), refresh=True)
