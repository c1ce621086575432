"""The findings of a series of snapshots, and how they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from zkgroup.audit.findings import series_cluster, series_groups
from zkgroup.audit.findings.rules import Bounds, Finding, StateRule
from zkgroup.audit.findings.states import SeriesView

if TYPE_CHECKING:
    from zkgroup.audit.inputs.snapshots import Series

STATE_RULES: Final[tuple[StateRule, ...]] = tuple(
    rule
    for module in (series_groups, series_cluster)
    for rule in vars(module).values()
    if isinstance(rule, StateRule)
)
"""Those about groups, then those about the cluster and the tree."""


def find_states(
    rules: Sequence[StateRule], series: Series, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """What the rules find in snapshots of which the order is known."""
    series = series.in_order
    view = SeriesView(series, bounds.get("stalled_offset", {"snapshots": 1})["snapshots"])
    for rule in rules:
        for shown in rule.find(view, bounds[rule.name]):
            yield shown.finding(rule, series.facts)
