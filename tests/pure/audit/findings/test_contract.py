"""What each finding is by contract: its name, its worst severity, and what it cannot do without.

Where findings differ from their queries is docs/adr/0023. Three have their reason here: `controller_election`
also warns of storms and of long times without a controller; the offsets of 18 and 19 are info, for ZooKeeper
does not know the ends of logs; `session_end` warns of members
that were paused (docs/adr/0039); and a snapshot alone does not tell what `session_leak` asks, for it does not
say when a session wrote.
"""

from __future__ import annotations

from zkgroup.audit.findings.engine import ALL_RULES, STATE_RULES
from zkgroup.audit.findings.rules import WholeRule

CONTRACT = """
orphan_owner                S   error
orphan_owner_interval       L   error
owner_session_mismatch      S   error
double_ownership            L   error
claim_stolen                L   error
unowned_interval            L   warning
never_owned                 S   error
persistent_znode            S   error
foreign_owner_format        S   info
rebalance                   L   info
rebalance_storm             L   warning
needless_move               L   warning
skew                        S   warning
failed_claims               L   warning
handover_time               L   info
session_end                 L   warning
member_flapping             L   warning
offset_regression           L   error
reset_overwritten           L   warning
zombie_commit               L   error
no_commit_at_handover       L   info
stalled_offset              L   info
commit_rate                 L   info
dead_group                  S   info
offset_of_missing_partition S   warning
controller_election         L   warning
controller_epoch_gap        L   error
deposed_controller_write    L   error
leader_not_in_isr           S   error
isr_outside_assignment      S   error
under_replicated            L   warning
offline_partition           L   error
unclean_election            L   error
leader_epoch_not_rising     L   error
isr_flapping                L   warning
broker_flapping             L   warning
stuck_reassignment          S+L warning
preferred_leader_imbalance  S   warning
stuck_topic_deletion        S   warning
znode_bloat                 S   warning
growth                      S   info
ephemeral_churn             L   warning
herd_size                   L   warning
write_hot_spot              L   info
ensemble_election           L   info
history_hole                L   error
oversized_transaction       L   error
split_history               L   error
clock_step                  L   warning
digest_mismatch             S+L error
session_leak                S+L warning
open_acl                    S   warning
"""
OF_SERIES = {
    *("orphan_owner", "owner_session_mismatch", "unowned_interval", "never_owned", "persistent_znode"),
    *("offset_regression", "reset_overwritten", "stalled_offset", "commit_rate", "controller_election"),
    *("controller_epoch_gap", "under_replicated", "offline_partition", "leader_epoch_not_rising"),
    *("stuck_reassignment", "stuck_topic_deletion", "growth", "open_acl", "rebalance"),
}
"""Findings of logs that series of snapshots show, too."""
OF_SERIES_ALONE = {
    "owner_changed": "info",
    "membership_changed": "info",
    "missing_session": "error",
    "offset_deleted": "warning",
    "broker_changed": "info",
    "leadership_changed": "info",
    "topic_changed": "info",
    "config_changed": "info",
}
WHOLE = [
    "growth",
    "ensemble_election",
    "history_hole",
    "oversized_transaction",
    "split_history",
    "clock_step",
    "digest_mismatch",
]
"""What no order of rows can tell: the files themselves, or a replay."""


def test_names_severities_and_inputs_are_those_of_the_contract() -> None:
    """All fifty-two, in its order."""
    letters = {"tree": "S", "log": "L"}

    assert [
        (rule.name, "+".join(letters[each] for each in rule.needs), rule.severity) for rule in ALL_RULES
    ] == [tuple(line.split()) for line in CONTRACT.strip().splitlines()]


def test_only_rules_that_rows_cannot_serve_read_the_whole_history() -> None:
    """The others are folds, and so the same on a laptop and in Spark."""
    assert [rule.name for rule in ALL_RULES if isinstance(rule, WholeRule)] == WHOLE


def test_names_of_series_are_those_of_logs_and_some_of_their_own() -> None:
    """The severity of a finding that logs have, too, is the one that it has there."""
    assert {rule.name for rule in STATE_RULES if rule.like is not None} == OF_SERIES
    assert {rule.name: rule.severity for rule in STATE_RULES if rule.like is None} == OF_SERIES_ALONE
    assert len(STATE_RULES) == len(OF_SERIES) + len(OF_SERIES_ALONE)
