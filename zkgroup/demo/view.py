"""The live view on a terminal. The only file of the library that imports rich."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.scene import Happening, MemberRow, PartitionRow, Scene

STORY_LINES = 12
"""At most so many lines of the story are on the screen."""
STORY_LINES_MIN = 8
"""With fewer the partitions go into two columns."""
BAR = 30
MEMBER_COLORS = ("cyan", "magenta", "yellow", "green", "blue")

_TONES = {"plain": "default", "good": "green", "bad": "bold red"}
_STATES = {"stable": "green", "killed": "bold red", "left": "dim", "lost": "bold red", "suspended": "red"}


def render(scene: Scene, width: int = 100, height: int = 40) -> RenderableType:
    """The whole screen for one scene, for a terminal of this size; 80x24 is enough.

    A low terminal shows the partitions in two columns; the story gets the lines that are left.
    """
    colors = {row.name: MEMBER_COLORS[i % len(MEMBER_COLORS)] for i, row in enumerate(scene.members)}
    around = 5 + len(scene.members)  # headline, three blank lines, the members' header
    tall = height - around - len(scene.partitions) - 2 >= STORY_LINES_MIN
    rows = len(scene.partitions) + 2 if tall else (len(scene.partitions) + 1) // 2 + 2
    story = scene.story[-max(height - around - rows, 1) :][-STORY_LINES:]
    return Group(
        _headline(scene, width),
        Text(),
        _members(scene, colors),
        Text(),
        _partitions(scene, colors) if tall else _two_columns(scene, colors, width),
        Text(),
        *map(line, story),
    )


def _headline(scene: Scene, width: int) -> RenderableType:
    """What is going on, and on the right the time; the address where there is room."""
    what = Text.assemble(("zkgroup demo  ", "bold"), (scene.headline, "bold cyan"))
    clock = f"{scene.elapsed_s:4.1f} s"
    address = f"ZooKeeper {scene.zookeeper}   "
    if what.cell_len + len(address) + len(clock) + 2 <= width:
        clock = address + clock
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(what, Text(clock, style="dim"))
    return grid


def _members(scene: Scene, colors: dict[str, str]) -> Table:
    table = _table(
        ("member", "left"), ("pid", "right"), ("state", "left"), ("records", "right"), ("partitions", "left")
    )
    for row in scene.members:
        table.add_row(*_member(row, colors[row.name]))
    return table


def _member(row: MemberRow, color: str) -> tuple[Text, ...]:
    faded = "dim" if row.gone else ""
    return (
        Text(row.name, style=faded or color),
        Text(str(row.pid), style=faded),
        Text(row.state, style=_STATES.get(row.state, "yellow")),
        Text(f"{row.processed:,}", style=faded),
        Text(" ".join(str(number) for number in row.partitions), style=color),
    )


def _partitions(scene: Scene, colors: dict[str, str]) -> Table:
    table = _table(
        ("partition", "right"),
        ("owner", "left"),
        ("token", "right"),
        ("offset", "right"),
        ("lag", "right"),
        ("", "left"),
    )
    for row in scene.partitions:
        token = Text(f"{row.token or ''}", style="dim")
        name, owner, *rest = _partition(row, scene, colors, BAR)
        table.add_row(name, owner, token, *rest)
    bar = ProgressBar(total=scene.total or 1, completed=scene.committed, width=BAR)
    table.add_row("", "", "", f"{scene.committed:,}", f"{scene.total - scene.committed:,}", bar)
    return table


def _two_columns(scene: Scene, colors: dict[str, str], width: int) -> RenderableType:
    """The partitions in two halves side by side, without tokens, and a line with the total."""
    bar = max(0, min(BAR, width // 2 - 36))
    half = (len(scene.partitions) + 1) // 2
    grid = Table.grid(padding=(0, 2, 0, 0))
    halves = []
    for rows in (scene.partitions[:half], scene.partitions[half:]):
        table = _table(
            ("partition", "right"), ("owner", "left"), ("offset", "right"), ("lag", "right"), ("", "left")
        )
        for row in rows:
            table.add_row(*_partition(row, scene, colors, bar))
        halves.append(table)
    grid.add_row(*halves)
    total = Table.grid(padding=(0, 2, 0, 0))
    total.add_row(
        Text(f"{scene.committed:,} of {scene.total:,} committed"),
        ProgressBar(total=scene.total or 1, completed=scene.committed, width=BAR),
    )
    return Group(grid, total)


def _partition(
    row: PartitionRow, scene: Scene, colors: dict[str, str], bar: int
) -> tuple[RenderableType, ...]:
    nobody = "bold red" if any(not member.gone for member in scene.members) else "dim"
    owner = Text(row.owner, style=colors.get(row.owner, "")) if row.owner else Text("nobody", style=nobody)
    return (
        Text(str(row.partition)),
        owner,
        Text(f"{row.offset:,}"),
        Text(f"{row.lag:,}", style="dim" if row.lag == 0 else ""),
        ProgressBar(total=row.end or 1, completed=row.offset, width=bar) if bar else Text(),
    )


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, side in columns:
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    return table


def line(happening: Happening) -> Text:
    """One line of the story."""
    return Text.assemble((f"{happening.at_s:5.1f} s  ", "dim"), (happening.text, _TONES[happening.tone]))


class LiveScreen:
    """Draws each scene over the one before, on the terminal's alternate screen.

    The size is asked for with each scene, so the terminal may be resized meanwhile. At the end the
    terminal is as before, with the story below.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, screen=True)
        self._story: list[Happening] = []
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

    def happened(self, happening: Happening) -> None:
        """Kept for the end; meanwhile the story is part of each scene, and all there is before the first."""
        self._story.append(happening)
        if not self._shown:
            self._live.update(Group(*map(line, self._story)), refresh=True)

    def show(self, scene: Scene) -> None:
        """Replaces the present picture."""
        self._shown = True
        size = self._console.size
        self._live.update(render(scene, size.width, size.height), refresh=True)
