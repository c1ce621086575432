"""What several findings of one name are called together: one, and many."""

from __future__ import annotations

from collections.abc import Mapping

NOTES: Mapping[str, tuple[str, str]] = {
    "orphan_owner": ("owner without a registered member", "owners without a registered member"),
    "orphan_owner_interval": ("claim outlived its member", "claims outlived their members"),
    "owner_session_mismatch": ("owner claimed by a foreign session", "owners claimed by a foreign session"),
    "double_ownership": ("partition had two owners", "partitions had two owners"),
    "claim_stolen": ("claim deleted by another session", "claims deleted by another session"),
    "unowned_interval": ("time a partition had no owner", "times a partition had no owner"),
    "never_owned": ("partition without an owner", "partitions without an owner, to which members subscribe"),
    "persistent_znode": ("persistent znode", "persistent znodes where sessions belong"),
    "foreign_owner_format": (
        "group of another client's consumers",
        "groups of other clients' consumers",
    ),
    "rebalance": ("rebalance", "rebalances"),
    "rebalance_storm": ("rebalance storm", "rebalance storms"),
    "needless_move": (
        "rebalance that moved partitions needlessly",
        "rebalances that moved partitions needlessly",
    ),
    "skew": ("uneven assignment", "uneven assignments"),
    "failed_claims": ("member that could not claim partitions", "members that could not claim partitions"),
    "handover_time": ("handover after the end of a session", "handovers after the end of a session"),
    "session_end": ("session ended", "sessions ended"),
    "member_flapping": ("member registered again and again", "members registered again and again"),
    "offset_regression": ("offset set back", "offsets set back"),
    "zombie_commit": ("commit without ownership", "commits without ownership"),
    "no_commit_at_handover": (
        "ownership that ended without a commit",
        "ownerships that ended without a commit",
    ),
    "stalled_offset": (
        "offset that did not change up to the end",
        "offsets that did not change up to the end",
    ),
    "commit_rate": ("commit rate", "commit rates"),
    "dead_group": ("group without members and writes", "groups without members and writes for days"),
    "offset_of_missing_partition": ("offset of a missing partition", "offsets of missing partitions"),
    "controller_election": ("controller election", "controller elections"),
    "controller_epoch_gap": ("gap in the controller epochs", "gaps in the controller epochs"),
    "deposed_controller_write": ("write by a former controller", "writes by a former controller"),
    "leader_not_in_isr": ("leader outside the ISR", "leaders outside the ISR"),
    "isr_outside_assignment": ("ISR outside the replica list", "ISRs outside their replica lists"),
    "under_replicated": ("partition lacked replicas", "partitions lacked replicas"),
    "offline_partition": ("partition had no leader", "partitions had no leader"),
    "unclean_election": ("unclean election", "unclean elections"),
    "leader_epoch_not_rising": ("leader epoch that did not rise", "leader epochs that did not rise"),
    "isr_flapping": ("replica left the ISR for a moment", "replicas left the ISR for a moment"),
    "broker_flapping": ("broker was up for a short time", "brokers were up for a short time"),
    "stuck_reassignment": ("reassignment that did not finish", "reassignments that did not finish"),
    "preferred_leader_imbalance": (
        "broker leads fewer partitions than it should",
        "brokers lead fewer partitions than they should",
    ),
    "stuck_topic_deletion": ("topic that is not deleted", "topics that are not deleted"),
    "znode_bloat": ("large znode or subtree", "large znodes or subtrees"),
    "growth": ("subtree that changed between snapshots", "subtrees that changed between snapshots"),
    "ephemeral_churn": ("session that made many ephemerals", "sessions that made many ephemerals"),
    "herd_size": ("change that wakes many clients", "changes that wake many clients"),
    "write_hot_spot": ("subtree with many writes", "subtrees with many writes"),
    "ensemble_election": ("election among ZooKeeper's servers", "elections among ZooKeeper's servers"),
    "history_hole": ("hole in the history", "holes in the history"),
    "oversized_transaction": ("transaction that is too large", "transactions that are too large"),
    "split_history": ("transaction that differs", "transactions that differ between servers"),
    "clock_step": ("step back of a leader's clock", "steps back of leaders' clocks"),
    "digest_mismatch": ("comparison of digests", "comparisons of digests that differ"),
    "session_leak": ("idle session kept alive", "idle sessions kept alive"),
    "open_acl": ("finding about ACLs", "findings about ACLs"),
}


def called(name: str, count: int) -> str:
    """What so many findings of a name are called, without the number."""
    return NOTES[name][0 if count == 1 else 1]
