"""The findings of a series of snapshots, and how they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zkgroup.audit.findings import series_cluster, series_groups, series_offsets, series_trees
from zkgroup.audit.findings.rules import Bounds, Finding, StateRule
from zkgroup.audit.findings.states import has_overlaps, in_order
from zkgroup.audit.inputs.series import Series

STATE_RULES: Final[tuple[StateRule, ...]] = (
    series_groups.orphan_owner,
    series_groups.owner_session_mismatch,
    series_groups.unowned_interval,
    series_groups.persistent_znode,
    series_groups.rebalance,
    series_offsets.offset_regression,
    series_offsets.reset_overwritten,
    series_offsets.stalled_offset,
    series_offsets.commit_rate,
    series_cluster.controller_election,
    series_cluster.controller_epoch_gap,
    series_cluster.under_replicated,
    series_cluster.offline_partition,
    series_cluster.leader_epoch_not_rising,
    series_cluster.stuck_reassignment,
    series_cluster.stuck_topic_deletion,
    series_trees.growth,
    series_trees.open_acl,
    series_groups.owner_changed,
    series_groups.membership_changed,
    series_groups.missing_session,
    series_offsets.offset_deleted,
    series_cluster.broker_restarted,
    series_cluster.leadership_changed,
    series_trees.topic_changed,
    series_trees.config_changed,
)


def find_states(
    rules: Sequence[StateRule], series: Series, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """What the rules find, key by key."""
    overlap = has_overlaps(series.facts)
    for keys in {rule.keys.name: rule.keys for rule in rules}.values():
        asked = [rule for rule in rules if rule.keys.name == keys.name]
        for key, states in series.keyed(keys):
            if overlap:
                states = {path: in_order(of_path, series.facts) for path, of_path in states.items()}
            for rule in asked:
                for shown in rule.find(states, key, series.facts, bounds[rule.name]):
                    yield shown.finding(rule, series.facts)
