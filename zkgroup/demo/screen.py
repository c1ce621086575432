"""The live view on a terminal, and the parts of which each demo draws its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.stage import DemoStage, ProgressEvent

EVENT_LINES = 12
"""Number of events on the screen at most."""
COLORS = ("cyan", "magenta", "yellow", "green", "blue", "bright_cyan")
_TONES = {"plain": "default", "good": "green", "bad": "bold red"}
_STATES = dict.fromkeys(("stable", "serving", "running"), "green") | {"left": "dim", "suspended": "red"}
_STATES |= dict.fromkeys(("killed", "paused", "lost"), "bold red")


def frame(stage: DemoStage, parts: Sequence[RenderableType], lines: int, width: int, height: int) -> Group:
    """Headline, the parts, which have so many lines, and the events for which there is room."""
    events = stage.events[-max(height - lines - 3, 1) :][-EVENT_LINES:]
    return Group(_headline(stage, width), Text(), *parts, Text(), *map(_line, events))


def _headline(stage: DemoStage, width: int) -> Table:
    """Command and headline, on the right the time, and the address where there is room."""
    text = Text.assemble((f"{stage.command}  ", "bold"), (stage.headline, "bold cyan"))
    clock = f"{stage.elapsed_s:4.1f} s"
    address = f"ZooKeeper {stage.zookeeper}   "
    if text.cell_len + len(address) + len(clock) + 2 <= width:
        clock = address + clock
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True, min_width=len(clock))
    grid.add_row(text, Text(clock, style="dim"))
    return grid


def table(
    columns: str, rows: Iterable[Sequence[RenderableType]], widths: Sequence[int] = (), gap: int = 2
) -> Table:
    """A table without rules. Names of columns are separated by commas; `>` aligns a column to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for number, name in enumerate(columns.split(",")):
        least = widths[number] if widths else None
        right = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=True, min_width=least)
    for row in rows:
        made.add_row(*row)
    return made


def beside(cells: Iterable[RenderableType], gap: int = 2) -> Table:
    """The cells side by side."""
    grid = Table.grid(padding=(0, gap, 0, 0))
    grid.add_row(*cells)
    return grid


def bar(done: int, total: int, width: int) -> RenderableType:
    """A progress bar; nothing where there is no room."""
    return ProgressBar(total=total or 1, completed=done, width=width) if width else Text()


def progress(counts: Mapping[str, int], total: int, width: int) -> list[RenderableType]:
    """Cells: each count with its name, and its bar."""
    pairs = [(Text(f"{name} {done:,}"), bar(done, total, width)) for name, done in counts.items()]
    return [cell for pair in pairs for cell in pair]


def state(name: str) -> Text:
    """The state of a process."""
    return Text(name, style=_STATES.get(name, "yellow"))


def _line(event: ProgressEvent) -> Text:
    return Text.assemble((f"{event.at_s:5.1f} s  ", "dim"), (event.text, _TONES[event.tone]))


class LiveScreen:
    """Draws each state over the one before, on the terminal's alternate screen.

    It reads the size each time, so the terminal may be resized meanwhile. At the end the terminal is as
    before, followed by the events.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
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
            self._console.print(_line(event))
        self._console.print()

    def on_event(self, event: ProgressEvent) -> None:
        """Keeps the event for the end; before the first state the screen shows the events alone."""
        self._events.append(event)
        if not self._shown:
            self._live.update(Group(*map(_line, self._events)), refresh=True)

    def show(self, stage: DemoStage) -> None:
        """Shows a state in place of the one before."""
        self._shown = True
        size = self._console.size
        self._live.update(stage.draw(size.width, size.height), refresh=True)
