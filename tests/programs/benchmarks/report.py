"""How much is measured; measured lines and checked goals, as JSON and as a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.long.interop.jars import MissingToolError, kafka_jars
from tests.programs.benchmarks.server import Cost
from tests.programs.benchmarks.sides import JVM, Side


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    repeats: int = 3
    short: bool = False

    def peers(self) -> tuple[Side, ...]:
        """JVM members, where they are available."""
        try:
            kafka_jars("0.8.2.2")
        except MissingToolError:
            return ()
        return (JVM,)


def cost_line(what: str, side: str, costs: Sequence[Cost], note: str = "") -> Line:
    """The line of one side of one measurement."""
    return Line(
        what,
        side,
        seconds=median(cost.seconds for cost in costs),
        spread_s=spread([cost.seconds for cost in costs]),
        packets=round(median(cost.packets for cost in costs) or 0),
        client_cpu_s=median(cost.client_cpu_s for cost in costs),
        server_cpu_s=median(cost.server_cpu_s for cost in costs),
        runs=len(costs),
        note=note,
    )


def ratio(peer: Line, ours: Line) -> float:
    """The peer's seconds divided by zkgroup's."""
    assert peer.seconds is not None
    assert ours.seconds is not None
    return peer.seconds / ours.seconds


@dataclass(frozen=True)
class Line:
    """One side of one measurement: medians of its repeats. None: not reported, or not measured."""

    what: str
    side: str
    seconds: float | None = None
    spread_s: tuple[float, float] | None = None
    packets: int | None = None
    client_cpu_s: float | None = None
    server_cpu_s: float | None = None
    runs: int = 1
    note: str = ""


COUNTED = ("packets", "files", "MB", "calls", "replicas")
"""Units of what is the same on every machine and under every load."""


@dataclass(frozen=True)
class Goal:
    """A goal: the limit, the measured value, and the cause where it is missed."""

    what: str
    wanted: str
    found: str
    reached: bool
    limit: str = ""

    @property
    def is_counted(self) -> bool:
        """Whether a test may check it; ratios of times depend on the load of the machine."""
        return self.wanted.endswith(COUNTED)


@dataclass
class Report:
    """The lines and goals of one run."""

    lines: list[Line] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def at_least(self, what: str, ratio: float, found: float, limit: str) -> None:
        """Adds a goal of speed: a peer's seconds divided by zkgroup's."""
        self.goals.append(Goal(what, f"≥ {ratio:g}x", f"{found:.1f}x", found >= ratio, limit))

    def at_most(self, what: str, most: float, found: float, unit: str, limit: str = "") -> None:
        """Adds a goal of cost."""
        self.goals.append(Goal(what, f"≤ {most:g} {unit}", f"{found:.4g} {unit}", found <= most, limit))

    def as_json(self) -> str:
        machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
        rows: dict[str, Any] = {
            "schema": "zkgroup.benchmarks/1",
            "machine": machine,
            "lines": [asdict(line) for line in self.lines],
            "goals": [asdict(goal) for goal in self.goals],
            "notes": self.notes,
        }
        return json.dumps(rows, indent=1)

    def as_table(self) -> str:
        """The report in Markdown."""
        head = [
            "what",
            "side",
            "seconds (from-to)",
            "packets",
            "client CPU s",
            "server CPU s",
            "runs",
            "note",
        ]
        body = [[line.what, line.side, _seconds(line), _text(line.packets), _text(line.client_cpu_s),
                 _text(line.server_cpu_s), str(line.runs), line.note] for line in self.lines]  # fmt: skip
        goals = [[goal.what, goal.wanted, goal.found, "yes" if goal.reached else "NO", goal.limit]
                 for goal in self.goals]  # fmt: skip
        parts = [
            _markdown(head, body),
            _markdown(["goal", "wanted", "found", "reached", "limited by"], goals),
        ]
        return "\n\n".join([*parts, *self.notes])


def median(values: Iterable[float | None]) -> float | None:
    """The median of the values that are not None; None where there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def spread(values: Sequence[float]) -> tuple[float, float] | None:
    return (min(values), max(values)) if len(values) > 1 else None


def _seconds(line: Line) -> str:
    if line.seconds is None:
        return "-"
    extent = f" ({line.spread_s[0]:.3g}-{line.spread_s[1]:.3g})" if line.spread_s else ""
    return f"{line.seconds:.3g}{extent}"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, int) else f"{value:.3g}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
