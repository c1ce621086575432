"""The terminal view of `zkgroup demo group`: its data, and how it is drawn."""

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
"""With room for fewer events, the partitions are drawn in two columns."""
BAR = 30
MEMBER_COLORS = ("cyan", "magenta", "yellow", "green", "blue")

_STATES = {"stable": "green", "killed": "bold red", "left": "dim", "lost": "bold red", "suspended": "red"}


def render(view: GroupView, width: int = 100, height: int = 40) -> RenderableType:
    """Draws one view for a terminal of this size; 80x24 is enough.

    A low terminal shows the partitions in two columns; events get the lines that are left.
    """
    colors = {row.name: MEMBER_COLORS[i % len(MEMBER_COLORS)] for i, row in enumerate(view.members)}
    around = 5 + len(view.members)  # headline, three blank lines, the members' header
    tall = height - around - len(view.partitions) - 2 >= EVENT_LINES_MIN
    rows = len(view.partitions) + 2 if tall else (len(view.partitions) + 1) // 2 + 2
    events = view.events[-max(height - around - rows, 1) :][-EVENT_LINES:]
    return Group(
        headline(view.command, view.headline, view.zookeeper, view.elapsed_s, width),
        Text(),
        _members(view, colors),
        Text(),
        _partitions(view, colors) if tall else _two_columns(view, colors, width),
        Text(),
        *map(line, events),
    )


def _members(view: GroupView, colors: dict[str, str]) -> Table:
    shown = table(
        ("member", "left"), ("pid", "right"), ("state", "left"), ("records", "right"), ("partitions", "left")
    )
    for row in view.members:
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


def _partitions(view: GroupView, colors: dict[str, str]) -> Table:
    shown = table(
        ("partition", "right"),
        ("owner", "left"),
        ("token", "right"),
        ("offset", "right"),
        ("lag", "right"),
        ("", "left"),
    )
    for row in view.partitions:
        token = Text(f"{row.token or ''}", style="dim")
        name, owner, *rest = _partition(row, view, colors, BAR)
        shown.add_row(name, owner, token, *rest)
    bar = ProgressBar(total=view.total or 1, completed=view.committed, width=BAR)
    shown.add_row("", "", "", f"{view.committed:,}", f"{view.total - view.committed:,}", bar)
    return shown


def _two_columns(view: GroupView, colors: dict[str, str], width: int) -> RenderableType:
    """The partitions in two halves side by side, without tokens, and a line with the total."""
    bar = max(0, min(BAR, width // 2 - 36))
    half = (len(view.partitions) + 1) // 2
    grid = Table.grid(padding=(0, 2, 0, 0))
    halves = []
    for rows in (view.partitions[:half], view.partitions[half:]):
        shown = table(
            ("partition", "right"), ("owner", "left"), ("offset", "right"), ("lag", "right"), ("", "left")
        )
        for row in rows:
            shown.add_row(*_partition(row, view, colors, bar))
        halves.append(shown)
    grid.add_row(*halves)
    total = Table.grid(padding=(0, 2, 0, 0))
    total.add_row(
        Text(f"{view.committed:,} of {view.total:,} committed"),
        ProgressBar(total=view.total or 1, completed=view.committed, width=BAR),
    )
    return Group(grid, total)


def _partition(
    row: OwnedPartitionRow, view: GroupView, colors: dict[str, str], bar: int
) -> tuple[RenderableType, ...]:
    style = "bold red" if any(not member.gone for member in view.members) else "dim"
    owner = Text(row.owner, style=colors.get(row.owner, "")) if row.owner else Text("none", style=style)
    return (
        Text(str(row.partition)),
        owner,
        Text(f"{row.offset:,}"),
        Text(f"{row.lag:,}", style="dim" if row.lag == 0 else ""),
        ProgressBar(total=row.end or 1, completed=row.offset, width=bar) if bar else Text(),
    )


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member's process: state, owned partitions, and number of processed records."""

    name: str
    pid: int
    state: str
    partitions: tuple[int, ...]
    processed: int
    gone: bool


@dataclass(frozen=True, slots=True)
class OwnedPartitionRow:
    """One partition: its owner, token and offset."""

    partition: int
    owner: str | None
    token: int | None
    offset: int
    end: int

    @property
    def lag(self) -> int:
        """Number of records not committed yet."""
        return self.end - self.offset


@dataclass(frozen=True, slots=True)
class GroupView:
    """Everything that the screen shows."""

    elapsed_s: float
    zookeeper: str
    headline: str
    members: Sequence[MemberRow]
    partitions: Sequence[OwnedPartitionRow]
    events: Sequence[ProgressEvent]
    command: str = "zkgroup demo"
    """The command in the headline."""

    @property
    def committed(self) -> int:
        """Number of committed records in all partitions."""
        return sum(row.offset for row in self.partitions)

    @property
    def total(self) -> int:
        """Number of records in all partitions."""
        return sum(row.end for row in self.partitions)
