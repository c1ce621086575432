"""Runs drawn schedules of groups and of clusters, and says what their faults had to do.

A failure prints its seed, and the call that does it again, as `Simulation(seed).run()`.
"""

from __future__ import annotations

from collections import Counter

from tests.simulation import Simulation
from tests.simulation.cluster import ClusterSimulation
from tests.simulation.coordinator import CoordinatorSimulation

OF_MEMBERS = {
    "deliveries": 1500,
    "commits accepted": 600,
    "ownership changes": 250,
    "fenced writes refused": 20,
    "refused stale commits": 1,
    "sessions expired": 80,
    "lease.expired": 5,
    "reset.applied": 5,
    "foreign_write": 2,
    "commit.info": 0.4,
    "claim.info": 1,
    "release.ok": 12,
    "seeks": 8,
    "commits of own offsets": 7,
    "callback actions": 60,
    "fault late_answer": 20,
    "fault grow_at_claim": 5,
    "fault write_at_commit": 2,
    "fault source_fails": 10,
}
"""Least figures of a hundred schedules: low enough that no batch falls short by chance."""

OF_CLUSTERS = {
    "elections": 120,
    "governed writes": 600,
    "fenced writes": 80,
    "foreign writes": 60,
    "isr writes": 60,
    "leader changes": 120,
    "moves begun": 30,
    "moves ended": 20,
    "topics deleted": 20,
    "acknowledged records": 1000,
    "sessions expired": 100,
    "requests sent": 2000,
    "requests late requests": 1,
    "requests cut unanswered": 0.4,
    "note takeover.grace": 40,
    "note first_leader_epochs.sent": 1,
    "shutdowns granted": 2,
    "foreign write write_request": 30,
    "foreign write delete_request": 7,
    "foreign write kafka_step": 3,
    "foreign write break_znode": 40,
    "note znode.unreadable": 8,
    "note election.asked": 10,
    "note election.unclean": 0.4,
    "note plan.ended": 20,
    "operation configure": 40,
    "operation force_deletion": 10,
    "topics recreated": 3,
    "records read": 500,
    "fault stall": 20,
    "fault answer_late": 4,
    "fault depose": 1,
    "fault kill_ahead": 8,
    "foreign write outrun": 3,
    "foreign write raise_epoch": 30,
    "foreign write forbid": 3,
    "corruption outlived": 10,
    "note replicas_of_deleted_topic.deleted": 3,
}
"""Least figures of a hundred schedules."""

OF_COORDINATORS = {
    "generations": 100,
    "client sync.ok": 200,
    "client join.refused": 30,
    "client fenced": 10,
    "commits of members": 600,
    "commits of ZooKeeper members": 250,
    "commits of clients outside": 0.4,
    "ZooKeeper members registered": 40,
    "markers set": 60,
    "slots loaded": 130,
    "groups loaded": 40,
    "refused by the slot's check": 5,
    "late requests of clients": 6,
    "lost answered": 6,
    "lost handled": 12,
    "note member_expired": 20,
    "sessions expired": 60,
    "fault fence_slot": 30,
    "partitions kept": 15,
    "client partitions.revoked": 2,
    "groups removed": 0.4,
    "admin group.deleted": 0.4,
    "admin subscribed offsets kept": 2,
    "admin static.removed": 0.4,
    "offsets deleted": 1,
    "offsets changed by operators": 1,
    "topics created again": 15,
    "commits of unknown partitions": 15,
    "offsets of deleted topics deleted": 0.4,
    "outside fetch.ok": 60,
}
"""Least figures of a hundred schedules."""


def hold_for_members(seeds: range) -> Counter[str]:
    """S1-S10 and S22 at every step, L1-L5 after the faults; the figures of what happened."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures.update(Simulation(seed).run().figures)
    return figures


def hold_for_clusters(seeds: range) -> Counter[str]:
    """S11-S17 at every step, L6 and L7 after the faults; the figures of what happened."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures.update(ClusterSimulation(seed).run().figures)
    return figures


def hold_for_coordinators(seeds: range) -> Counter[str]:
    """S23-S34 throughout, L8 after the faults; the figures of what happened."""
    figures: Counter[str] = Counter()
    for seed in seeds:
        figures.update(CoordinatorSimulation(seed).run().figures)
    return figures
