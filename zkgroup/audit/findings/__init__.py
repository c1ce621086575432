"""The findings, a module a theme; here in the order of the interface."""

from __future__ import annotations

from zkgroup.audit.findings import (
    brokers,
    controller,
    files,
    load,
    offsets,
    ownership,
    rebalances,
    registrations,
    replicas,
    sessions,
)
from zkgroup.audit.rules import AnyRule, Rule, WholeRule

ALL_RULES: tuple[AnyRule, ...] = (
    ownership.ORPHAN_OWNER,
    ownership.ORPHAN_OWNER_INTERVAL,
    ownership.OWNER_SESSION_MISMATCH,
    ownership.DOUBLE_OWNERSHIP,
    ownership.CLAIM_STOLEN,
    ownership.UNOWNED_INTERVAL,
    ownership.NEVER_OWNED,
    registrations.PERSISTENT_ZNODE,
    registrations.FOREIGN_OWNER_FORMAT,
    rebalances.REBALANCE,
    rebalances.REBALANCE_STORM,
    rebalances.NEEDLESS_MOVE,
    rebalances.SKEW,
    sessions.FAILED_CLAIMS,
    rebalances.HANDOVER_TIME,
    sessions.SESSION_END,
    rebalances.MEMBER_FLAPPING,
    offsets.OFFSET_REGRESSION,
    offsets.ZOMBIE_COMMIT,
    offsets.NO_COMMIT_AT_HANDOVER,
    offsets.STALLED_OFFSET,
    offsets.COMMIT_RATE,
    offsets.DEAD_GROUP,
    offsets.OFFSET_OF_MISSING_PARTITION,
    controller.CONTROLLER_ELECTION,
    controller.CONTROLLER_EPOCH_GAP,
    controller.DEPOSED_CONTROLLER_WRITE,
    replicas.LEADER_NOT_IN_ISR,
    replicas.ISR_OUTSIDE_ASSIGNMENT,
    replicas.UNDER_REPLICATED,
    replicas.OFFLINE_PARTITION,
    replicas.UNCLEAN_ELECTION,
    replicas.LEADER_EPOCH_NOT_RISING,
    replicas.ISR_FLAPPING,
    brokers.BROKER_FLAPPING,
    controller.STUCK_REASSIGNMENT,
    brokers.PREFERRED_LEADER_IMBALANCE,
    controller.STUCK_TOPIC_DELETION,
    load.ZNODE_BLOAT,
    files.GROWTH,
    sessions.EPHEMERAL_CHURN,
    load.HERD_SIZE,
    load.WRITE_HOT_SPOT,
    files.ENSEMBLE_ELECTION,
    files.HISTORY_HOLE,
    files.SPLIT_HISTORY,
    files.CLOCK_STEP,
    files.DIGEST_MISMATCH,
    sessions.SESSION_LEAK,
    load.OPEN_ACL,
)
RULES: tuple[Rule, ...] = tuple(rule for rule in ALL_RULES if isinstance(rule, Rule))
"""Those about the rows of a key."""
WHOLE_RULES: tuple[WholeRule, ...] = tuple(rule for rule in ALL_RULES if isinstance(rule, WholeRule))
"""Those that read the whole tree or the files."""
