"""The findings of a series of snapshots, and how they are asked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from zkgroup.audit.findings import series_cluster, series_groups
from zkgroup.audit.findings.rules import Bounds, Finding, StateRule
from zkgroup.audit.inputs.series import Seen, SeriesFacts, SeriesSnapshot, States

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
    """What the rules find, key by key.

    Of snapshots whose windows overlap only the last counts: it is not known in which order they saw a znode.
    """
    facts, kept = series.facts, [each.number for each in _in_order(series.facts)]
    is_whole = len(kept) == len(facts.snapshots)
    facts = facts if is_whole else _facts_of(facts, kept)
    for keys in {rule.keys.name: rule.keys for rule in rules}.values():
        asked = [rule for rule in rules if rule.keys.name == keys.name]
        for key, states in series.keyed(keys):
            some = states if is_whole else _states_of(states, kept)
            for rule in asked:
                for shown in rule.find(some, key, facts, bounds[rule.name]):
                    yield shown.finding(rule, facts)


def _in_order(facts: SeriesFacts) -> Iterator[SeriesSnapshot]:
    for one, other in zip_longest(facts.snapshots, facts.snapshots[1:]):
        if other is None or one.end_zxid <= other.zxid:
            yield one


def _facts_of(facts: SeriesFacts, kept: Sequence[int]) -> SeriesFacts:
    """The facts of some snapshots, which get other numbers."""
    return replace(
        facts,
        snapshots=[facts.snapshots[number]._replace(number=place) for place, number in enumerate(kept)],
        members={group: _states_of(states, kept) for group, states in facts.members.items()},
        brokers=_states_of(facts.brokers, kept),
        topics=_states_of(facts.topics, kept),
        controller=_runs_of(facts.controller, kept),
        controller_epoch=_runs_of(facts.controller_epoch, kept),
        derived={},
    )


def _states_of(states: States, kept: Sequence[int]) -> States:
    return {path: _runs_of(of_path, kept) for path, of_path in states.items()}


def _runs_of(of_path: Sequence[Seen], kept: Sequence[int]) -> list[Seen]:
    ends = ((seen, bisect_left(kept, seen.first), bisect_right(kept, seen.last) - 1) for seen in of_path)
    return [Seen(seen.state, first, last) for seen, first, last in ends if first <= last]
