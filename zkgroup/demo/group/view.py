"""The view of the demo of a group: members, partitions and events, and how they look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.progress import ProgressEvent
from zkgroup.demo.screen import EVENT_LINES, headline, line, table

EVENT_LINES_MIN = 8
"""With fewer the partitions go into two columns."""
BAR = 30
MEMBER_COLORS = ("cyan", "magenta", "yellow", "green", "blue")

_STATES = {"stable": "green", "killed": "bold red", "left": "dim", "lost": "bold red", "suspended": "red"}


def render(scene: GroupView, width: int = 100, height: int = 40) -> RenderableType:
    """The whole screen for one scene, for a terminal of this size; 80x24 is enough.

    A low terminal shows the partitions in two columns; the story gets the lines that are left.
    """
    colors = {row.name: MEMBER_COLORS[i % len(MEMBER_COLORS)] for i, row in enumerate(scene.members)}
    around = 5 + len(scene.members)  # headline, three blank lines, the members' header
    tall = height - around - len(scene.partitions) - 2 >= EVENT_LINES_MIN
    rows = len(scene.partitions) + 2 if tall else (len(scene.partitions) + 1) // 2 + 2
    story = scene.story[-max(height - around - rows, 1) :][-EVENT_LINES:]
    return Group(
        headline(scene.command, scene.headline, scene.zookeeper, scene.elapsed_s, width),
        Text(),
        _members(scene, colors),
        Text(),
        _partitions(scene, colors) if tall else _two_columns(scene, colors, width),
        Text(),
        *map(line, story),
    )


def _members(scene: GroupView, colors: dict[str, str]) -> Table:
    shown = table(
        ("member", "left"), ("pid", "right"), ("state", "left"), ("records", "right"), ("partitions", "left")
    )
    for row in scene.members:
        shown.add_row(*_member(row, colors[row.name]))
    return shown


def _member(row: MemberRow, color: str) -> tuple[Text, ...]:
    faded = "dim" if row.gone else ""
    return (
        Text(row.name, style=faded or color),
        Text(str(row.pid), style=faded),
        Text(row.state, style=_STATES.get(row.state, "yellow")),
        Text(f"{row.processed:,}", style=faded),
        Text(" ".join(str(number) for number in row.partitions), style=color),
    )


def _partitions(scene: GroupView, colors: dict[str, str]) -> Table:
    shown = table(
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
        shown.add_row(name, owner, token, *rest)
    bar = ProgressBar(total=scene.total or 1, completed=scene.committed, width=BAR)
    shown.add_row("", "", "", f"{scene.committed:,}", f"{scene.total - scene.committed:,}", bar)
    return shown


def _two_columns(scene: GroupView, colors: dict[str, str], width: int) -> RenderableType:
    """The partitions in two halves side by side, without tokens, and a line with the total."""
    bar = max(0, min(BAR, width // 2 - 36))
    half = (len(scene.partitions) + 1) // 2
    grid = Table.grid(padding=(0, 2, 0, 0))
    halves = []
    for rows in (scene.partitions[:half], scene.partitions[half:]):
        shown = table(
            ("partition", "right"), ("owner", "left"), ("offset", "right"), ("lag", "right"), ("", "left")
        )
        for row in rows:
            shown.add_row(*_partition(row, scene, colors, bar))
        halves.append(shown)
    grid.add_row(*halves)
    total = Table.grid(padding=(0, 2, 0, 0))
    total.add_row(
        Text(f"{scene.committed:,} of {scene.total:,} committed"),
        ProgressBar(total=scene.total or 1, completed=scene.committed, width=BAR),
    )
    return Group(grid, total)


def _partition(
    row: PartitionRow, scene: GroupView, colors: dict[str, str], bar: int
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


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One process: what it is doing, what it owns, how many records it has processed."""

    name: str
    pid: int
    state: str
    partitions: tuple[int, ...]
    processed: int
    gone: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition: who owns it and how far it is."""

    partition: int
    owner: str | None
    token: int | None
    offset: int
    end: int

    @property
    def lag(self) -> int:
        """Records not committed yet."""
        return self.end - self.offset


@dataclass(frozen=True, slots=True)
class GroupView:
    """Everything on the screen."""

    elapsed_s: float
    zookeeper: str
    headline: str
    members: Sequence[MemberRow]
    partitions: Sequence[PartitionRow]
    story: Sequence[ProgressEvent]
    command: str = "zkgroup demo"
    """The demo whose group this is."""

    @property
    def committed(self) -> int:
        """Records committed in all partitions."""
        return sum(row.offset for row in self.partitions)

    @property
    def total(self) -> int:
        """Records in all partitions."""
        return sum(row.end for row in self.partitions)
