"""The findings on what real Kafka and real servers left behind."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, Incident, findings, incidents

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


FOUND = {
    HEALTHY[0]: "broker_flapping 4w, commit_rate 5i, controller_election 2i, digest_mismatch 1i,"
    " ephemeral_churn 13i, growth 6i, handover_time 3i, needless_move 9i, no_commit_at_handover 11i,"
    " offline_partition 4w, open_acl 1i, rebalance 30i, session_end 32i, under_replicated 12w,"
    " unowned_interval 14w, zombie_commit 3w",
    HEALTHY[1]: "broker_flapping 1w, commit_rate 1i, controller_election 2i, ephemeral_churn 3i, growth 12i,"
    " handover_time 1i, needless_move 3i, offline_partition 2w, open_acl 1i, preferred_leader_imbalance 1w,"
    " rebalance 4i, session_end 3i",
    INCIDENTS: "broker_flapping 4w, claim_stolen 6e, commit_rate 3i, controller_election 8i,"
    " controller_election 1w, controller_epoch_gap 1w, deposed_controller_write 1e,"
    " deposed_controller_write 1w, digest_mismatch 1i, double_ownership 4e, ephemeral_churn 14i, growth 6i,"
    " handover_time 1i, needless_move 6i, offline_partition 1e, offset_regression 4e, open_acl 1i,"
    " owner_session_mismatch 10e, preferred_leader_imbalance 2w, rebalance 15i, session_end 12i,"
    " session_end 1w, stuck_reassignment 2w, under_replicated 3w, unowned_interval 25w, zombie_commit 8e,"
    " zombie_commit 8w",
}
"""How often each finding is found, as error, warning or info: in two days in the life of real Kafka 0.8.2.2,
with crashes and moves and without a fault, and in one with planted accidents."""


@pytest.mark.parametrize("name", FOUND)
def test_each_finding_is_found_as_often_as_it_happened(name: str) -> None:
    """Of every rule, in the whole history."""
    counts = Counter((each.finding, each.severity) for each in findings(name))

    assert (
        ", ".join(f"{rule} {count}{severity[0]}" for (rule, severity), count in sorted(counts.items()))
        == (FOUND[name])
    )


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
