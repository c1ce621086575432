"""The terminal view of `zkgroup demo coordinator`: its data, and how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.progress import ProgressEvent
from zkgroup.demo.screen import EVENT_LINES, headline, line, table

BAR = 20
MEMBER_COLORS = ("cyan", "magenta", "yellow", "green", "blue", "bright_cyan")
_STATES = {
    "serving": "green",
    "running": "green",
    "stable": "green",
    "killed": "bold red",
    "paused": "bold red",
    "left": "dim",
}


def render(view: CoordinatorView, width: int = 100, height: int = 40) -> RenderableType:
    """Draws one view for a terminal of this size; 80x24 is enough."""
    around = 2 + (1 + len(view.brokers)) + 3 + (1 + len(view.members)) + 1 + 1
    events = view.events[-max(height - around, 1) :][-EVENT_LINES:]
    return Group(
        headline("zkgroup demo coordinator", view.headline, view.zookeeper, view.elapsed_s, width),
        Text(),
        _brokers(view.brokers),
        Text(),
        _group(view),
        _members(view),
        _progress(view),
        Text(),
        *map(line, events),
    )


def _brokers(rows: Sequence[CoordinatingBrokerRow]) -> Table:
    shown = table(
        ("broker", "right"),
        ("pid", "right"),
        ("state", "left"),
        ("leads", "right"),
        ("slots", "right"),
        ("", ""),
    )
    for row in rows:
        roles = [*(["coordinator"] if row.coordinates else []), *(["controller"] if row.controls else [])]
        shown.add_row(
            str(row.broker),
            str(row.pid),
            Text(row.state, style=_STATES.get(row.state, "yellow")),
            str(row.leads),
            str(row.slots),
            Text(", ".join(roles), style="bold green"),
        )
    return shown


def _group(view: CoordinatorView) -> Text:
    """Kind of members, coordinator, phase, generation."""
    found = view.group
    text = Text.assemble(("group ", ""), (found.group, "bold"))
    if found.phase is None:
        text.append("   the coordinator does not answer", style="bold red")
    else:
        text.append(f"   {found.phase}", style="green" if found.phase in ("Stable", "stable") else "yellow")
    if found.ends_in_s is not None:
        text.append(f", ends in {found.ends_in_s:.1f} s", style="yellow")
    if found.coordinator is not None:
        text.append(f"   coordinator: broker {found.coordinator}")
    if found.generation is not None:
        text.append("   generation ")
        text.append(str(found.generation), style="bold")
    return text


def _members(view: CoordinatorView) -> Table:
    shown = table(
        ("member", "left"),
        ("pid", "right"),
        ("process", "left"),
        ("session", "right"),
        ("records", "right"),
        ("lag", "right"),
        ("partitions", "left"),
    )
    for number, row in enumerate(view.members):
        color = "dim" if row.gone else MEMBER_COLORS[number % len(MEMBER_COLORS)]
        session = "" if row.expires_in_s is None else f"{row.expires_in_s:.1f} s"
        shown.add_row(
            Text(row.name, style=color),
            Text(str(row.pid), style="dim" if row.gone else ""),
            Text(row.state, style=_STATES.get(row.state, "yellow")),
            Text(session, style="bold red" if row.state in ("killed", "paused") else ""),
            Text(f"{row.processed:,}"),
            Text(f"{row.lag:,}" if row.partitions else ""),
            Text(" ".join(map(str, row.partitions)), style=color),
        )
    return shown


def _progress(view: CoordinatorView) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    cells: list[RenderableType] = []
    for name, done in (("produced", view.produced), ("committed", view.committed)):
        cells.append(Text(f"{name} {done:,}"))
        cells.append(ProgressBar(total=view.total or 1, completed=done, width=BAR))
    cells.append(Text(f"lag {max(view.produced - view.committed, 0):,}"))
    grid.add_row(*cells)
    return grid


@dataclass(frozen=True, slots=True)
class CoordinatingBrokerRow:
    """One broker: its process and its roles."""

    broker: int
    pid: int
    state: str
    leads: int
    """Partitions of the topic."""
    slots: int
    """Slots of group coordinators that it leads."""
    coordinates: bool
    """Whether it coordinates the demo's group."""
    controls: bool
    """Whether it is the controller."""


@dataclass(frozen=True, slots=True)
class CoordinatedGroupRow:
    """The group as its coordinator reports it."""

    group: str
    phase: str | None
    """None if the coordinator does not answer."""
    ends_in_s: float | None
    """When the phase ends, if it does by itself."""
    generation: int | None
    coordinator: int | None


@dataclass(frozen=True, slots=True)
class GroupMemberRow:
    """One member's process, and what its coordinator says of it."""

    name: str
    pid: int
    state: str
    expires_in_s: float | None
    """When the coordinator removes it unless it sends a heartbeat."""
    processed: int
    lag: int
    """Of its partitions."""
    partitions: tuple[int, ...]
    gone: bool


@dataclass(frozen=True, slots=True)
class CoordinatorView:
    """Everything that the screen shows."""

    elapsed_s: float
    zookeeper: str
    headline: str
    brokers: Sequence[CoordinatingBrokerRow]
    group: CoordinatedGroupRow
    members: Sequence[GroupMemberRow]
    produced: int
    committed: int
    total: int
    """Number of records to produce."""
    events: Sequence[ProgressEvent]
