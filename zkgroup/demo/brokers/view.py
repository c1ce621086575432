"""The terminal view of `zkgroup demo brokers`: its data, and how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zkgroup.demo.progress import ProgressEvent
from zkgroup.demo.screen import EVENT_LINES, headline, line, table

COLUMNS = 3
"""Number of columns of partitions."""
BAR = 12
BROKER_COLORS = ("cyan", "magenta", "yellow", "green", "blue")
_STATES = {"serving": "green", "killed": "bold red", "left": "dim"}


def render(view: ClusterView, width: int = 100, height: int = 40) -> RenderableType:
    """Draws one view for a terminal of this size; 80x24 is enough."""
    rows = -(-len(view.partitions) // COLUMNS)
    around = 1 + 1 + (1 + len(view.brokers)) + 1 + (1 + rows) + 1 + 1
    events = view.events[-max(height - around, 1) :][-EVENT_LINES:]
    return Group(
        headline("zkgroup demo brokers", view.headline, view.zookeeper, view.elapsed_s, width),
        Text(),
        _brokers(view.brokers),
        Text(),
        _partitions(view.partitions),
        _progress(view),
        Text(),
        *map(line, events),
    )


def _color(broker: int | None) -> str:
    return "bold red" if broker is None else BROKER_COLORS[(broker - 1) % len(BROKER_COLORS)]


def _brokers(rows: Sequence[BrokerRow]) -> Table:
    shown = table(
        ("broker", "right"),
        ("pid", "right"),
        ("state", "left"),
        ("leads", "right"),
        ("in sync", "right"),
        ("replicas", "right"),
        ("", "left"),
    )
    for row in rows:
        role = "" if row.controller_epoch is None else f"controller, epoch {row.controller_epoch}"
        shown.add_row(
            Text(str(row.broker), style=_color(row.broker)),
            str(row.pid),
            Text(row.state, style=_STATES.get(row.state, "yellow")),
            str(row.leads),
            Text(str(row.in_sync), style="" if row.in_sync == row.hosts else "bold red"),
            str(row.hosts),
            Text(role, style="bold green"),
        )
    return shown


def _partitions(rows: Sequence[LedPartitionRow]) -> Table:
    """Leader with its epoch, ISR with the replicas behind it in brackets, high watermark."""
    grid = Table.grid(padding=(0, 3, 0, 0))
    height = -(-len(rows) // COLUMNS)
    blocks = []
    for start in range(0, len(rows), height or 1):
        block = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for name, side in (("", "right"), ("leader", "left"), ("ISR", "left"), ("HW", "right")):
            block.add_column(
                name,
                justify="right" if side == "right" else "left",
                no_wrap=True,
                min_width={"": 2, "leader": 6, "ISR": 6, "HW": 5}[name],
            )
        for row in rows[start : start + height]:
            block.add_row(*_partition(row))
        blocks.append(block)
    grid.add_row(*blocks)
    return grid


def _partition(row: LedPartitionRow) -> tuple[Text, ...]:
    leader = "none" if row.leader is None else f"{row.leader}@{row.leader_epoch}"
    isr = Text("".join(map(str, sorted(row.isr))))
    if row.behind:
        isr.append(f"({''.join(map(str, sorted(row.behind)))})", style="bold red")
    return (
        Text(str(row.partition), style="dim"),
        Text(leader, style=_color(row.leader)),
        isr,
        Text(f"{row.high_watermark:,}"),
    )


def _progress(view: ClusterView) -> Table:
    """Progress of producer, consumers and reassignments."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    cells: list[RenderableType] = []
    for name, done in (("acknowledged", view.acknowledged), ("consumed", view.consumed)):
        cells.append(Text(f"{name} {done:,}"))
        cells.append(ProgressBar(total=view.total or 1, completed=done, width=BAR))
    if view.open_moves:
        cells.append(Text(f"moving {view.open_moves}", style="bold yellow"))
    grid.add_row(*cells)
    return grid


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker: its process and its role in the cluster."""

    broker: int
    pid: int
    state: str
    controller_epoch: int | None
    """Its controller epoch; None where it is not the controller."""
    leads: int
    in_sync: int
    hosts: int
    """Partitions with a replica on it."""


@dataclass(frozen=True, slots=True)
class LedPartitionRow:
    """One partition: leader, leader epoch, ISR and high watermark."""

    partition: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    high_watermark: int

    @property
    def behind(self) -> tuple[int, ...]:
        """Replicas that are not in sync."""
        return tuple(one for one in self.replicas if one not in self.isr)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that the screen shows."""

    elapsed_s: float
    zookeeper: str
    headline: str
    brokers: Sequence[BrokerRow]
    partitions: Sequence[LedPartitionRow]
    acknowledged: int
    consumed: int
    total: int
    """Number of records to produce."""
    open_moves: int
    events: Sequence[ProgressEvent]
