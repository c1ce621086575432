"""The findings on what real Kafka and real servers left behind."""

from __future__ import annotations

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, Incident, findings, incidents
from zkgroup.audit.findings import ALL_RULES

EXPECTED: dict[str, set[tuple[str, str]]] = {
    "poison registration": {("unowned_interval", "warning")},
    "foreign owner deleted by a JVM release": {
        ("claim_stolen", "error"),
        ("owner_session_mismatch", "error"),
    },
    "zombie commit and rewind": {
        ("zombie_commit", "error"),
        ("offset_regression", "error"),
        ("claim_stolen", "error"),
        ("double_ownership", "error"),
        ("owner_session_mismatch", "error"),
    },
    "partitions without owner": {("unowned_interval", "warning"), ("zombie_commit", "warning")},
    "registered but idle": {("unowned_interval", "warning"), ("owner_session_mismatch", "error")},
    "owner adopted from another session": {
        ("zombie_commit", "error"),
        ("owner_session_mismatch", "error"),
        ("unowned_interval", "warning"),
    },
    "member paused past its session": {("rebalance", "info"), ("session_end", "info")},
    "empty reassignment stuck": {("stuck_reassignment", "warning")},
    "reassignment lost at failover": {("stuck_reassignment", "warning"), ("under_replicated", "warning")},
    "controller deleted by hand": {("controller_election", "info")},
    "controller id replaced": {
        ("controller_epoch_gap", "warning"),
        ("deposed_controller_write", "error"),
    },
    "controller deleted again and again": {("controller_election", "info")},
    "controller storm": {("controller_election", "warning")},
    "leaders lost": {("offline_partition", "error"), ("broker_flapping", "warning")},
}
"""What each accident has to be found by; others may find it too."""

NAMES = [
    "orphan_owner",
    "orphan_owner_interval",
    "owner_session_mismatch",
    "double_ownership",
    "claim_stolen",
    "unowned_interval",
    "never_owned",
    "persistent_znode",
    "foreign_owner_format",
    "rebalance",
    "rebalance_storm",
    "needless_move",
    "skew",
    "failed_claims",
    "handover_time",
    "session_end",
    "member_flapping",
    "offset_regression",
    "zombie_commit",
    "no_commit_at_handover",
    "stalled_offset",
    "commit_rate",
    "dead_group",
    "offset_of_missing_partition",
    "controller_election",
    "controller_epoch_gap",
    "deposed_controller_write",
    "leader_not_in_isr",
    "isr_outside_assignment",
    "under_replicated",
    "offline_partition",
    "unclean_election",
    "leader_epoch_not_rising",
    "isr_flapping",
    "broker_flapping",
    "stuck_reassignment",
    "preferred_leader_imbalance",
    "stuck_topic_deletion",
    "znode_bloat",
    "growth",
    "ephemeral_churn",
    "herd_size",
    "write_hot_spot",
    "ensemble_election",
    "history_hole",
    "oversized_transaction",
    "split_history",
    "clock_step",
    "digest_mismatch",
    "session_leak",
    "open_acl",
]
"""The names that `audit findings` promises, in order."""


@pytest.mark.parametrize("name", HEALTHY)
def test_no_rule_has_an_error_in_a_healthy_cluster(name: str) -> None:
    """A day in the life of real Kafka 0.8.2.2, with crashes and moves, holds no fault of its own."""
    rules = {rule.name for rule in ALL_RULES}
    errors = [each for each in findings(name) if each.finding in rules and each.severity == "error"]

    assert errors == []


@pytest.mark.parametrize("incident", incidents(), ids=lambda incident: incident.name)
def test_each_accident_is_found_where_it_was(incident: Incident) -> None:
    """Each recorded accident is found within its zxids by every rule that is named for it."""
    there = {(each.finding, each.severity) for each in findings(INCIDENTS) if incident.touches(each)}

    assert EXPECTED.get(incident.name, set()) <= there


def test_the_calm_time_among_accidents_has_none() -> None:
    """In the calm stretch between the recorded accidents there is no warning and no error."""
    calm = next(incident for incident in incidents() if incident.name == "calm")
    within = [each for each in findings(INCIDENTS) if calm.touches(each) and each.severity != "info"]

    assert within == []


def test_findings_have_the_names_and_order_of_the_interface() -> None:
    """Each rule has a name that `audit findings` promises, and they come in that order."""
    names = [rule.name for rule in ALL_RULES]

    assert names == NAMES
