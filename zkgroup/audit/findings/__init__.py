"""The findings, one module each, in the order of the interface."""

from __future__ import annotations

from zkgroup.audit.findings import (
    claim_stolen,
    commit_rate,
    dead_group,
    double_ownership,
    ephemeral_churn,
    failed_claims,
    handover_time,
    herd_size,
    member_flapping,
    needless_move,
    never_owned,
    no_commit_at_handover,
    offset_of_missing_partition,
    offset_regression,
    open_acl,
    orphan_owner,
    orphan_owner_interval,
    owner_session_mismatch,
    rebalance,
    rebalance_storm,
    session_end,
    session_leak,
    skew,
    stalled_offset,
    unowned_interval,
    write_hot_spot,
    znode_bloat,
    zombie_commit,
)
from zkgroup.audit.rules import AnyRule, Rule, WholeRule

ALL_RULES: tuple[AnyRule, ...] = tuple(
    module.RULE
    for module in (
        orphan_owner,
        orphan_owner_interval,
        owner_session_mismatch,
        double_ownership,
        claim_stolen,
        unowned_interval,
        never_owned,
        rebalance,
        rebalance_storm,
        needless_move,
        skew,
        failed_claims,
        handover_time,
        session_end,
        member_flapping,
        offset_regression,
        zombie_commit,
        no_commit_at_handover,
        stalled_offset,
        commit_rate,
        dead_group,
        offset_of_missing_partition,
        znode_bloat,
        ephemeral_churn,
        herd_size,
        write_hot_spot,
        session_leak,
        open_acl,
    )
)
RULES: tuple[Rule, ...] = tuple(rule for rule in ALL_RULES if isinstance(rule, Rule))
"""Those that are a fold of rows."""
WHOLE_RULES: tuple[WholeRule, ...] = tuple(rule for rule in ALL_RULES if isinstance(rule, WholeRule))
"""Those that look at the whole tree or at the files."""
