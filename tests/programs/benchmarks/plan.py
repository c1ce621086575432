"""How much is measured, and how a measurement becomes a line of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.long.interop.jars import MissingToolError, kafka_jars
from tests.programs.benchmarks.report import Line, median, spread
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
