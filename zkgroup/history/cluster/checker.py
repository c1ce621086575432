"""The checker of brokers and controllers, and the invariants decided from the brokers' own records. Pure.

`server_invariants` and `reassignment_invariants` decide invariants (S11 to S17) and convergence (L6, L7) from
the servers' log. Here the brokers' histories are compared: roles that they took, records that they
acknowledged. They consist of `zkgroup.history.records`; `member` names the broker, `pid` its process.

    role.taken         broker, topic, partition, leader, leader_epoch, life
    append.ok          topic, partition, offset, records, life       acknowledged with acks=all
    records.read       topic, partition, offset, records, life       given to a consumer
    records.kept       broker, topic, partition, records, life       what a leader holds at the end

`life` is anything that differs between two topics of one name, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from zkgroup.history.cluster.server_invariants import DECIDED as DECIDED_BY_SERVER
from zkgroup.history.cluster.server_invariants import DECIDED_AT_REST, ClusterLogChecker, check_convergence
from zkgroup.history.records import HistoryRecord, Recording, in_time
from zkgroup.history.report import ClusterFigures, ClusterOptions, ClusterReport, Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition

RECORDS = "records"
"""Name of the invariant that an acknowledged or read record is at its offset at the end."""


_DONE = {"append.ok": "acknowledged", "records.read": "read"}


def check_roles(records: Sequence[HistoryRecord]) -> Iterator[Violation]:
    """One leader per leader epoch."""
    leaders: dict[tuple[TopicPartition, int, Any], int] = {}
    for record in records:
        if record.kind == "role.taken":
            tp, leader = record.topic_partition, record.fields["leader"]
            leader_epoch = record.fields["leader_epoch"]
            led_by = leaders.setdefault((tp, leader_epoch, record.fields.get("life")), leader)
            if led_by != leader:
                detail = f"led by {led_by} and by {leader} in leader epoch {leader_epoch}"
                yield Violation("S12", detail, tp)


def check_records(records: Sequence[HistoryRecord], figures: ClusterFigures) -> Iterator[Violation]:
    """Every acknowledged or read record is at its offset in the log of the final leader.

    Partitions whose leader recorded none at the end are not checked.
    """
    kept = {
        _log_position(record): record.fields["records"] for record in records if record.kind == "records.kept"
    }
    for record in records:
        if record.kind not in _DONE:
            continue
        tp, offset, wanted = record.topic_partition, record.fields["offset"], list(record.fields["records"])
        figures.acknowledged_records += len(wanted) if record.kind == "append.ok" else 0
        if _log_position(record) not in kept:
            continue
        found = list(kept[_log_position(record)][offset : offset + len(wanted)])
        if found != wanted:
            yield Violation(RECORDS, f"{wanted} were {_DONE[record.kind]} at {offset}, found {found}", tp)


def _log_position(record: HistoryRecord) -> tuple[TopicPartition, Any]:
    return record.topic_partition, record.fields.get("life")


def check_cluster(
    transactions: Iterable[ServerTransaction],
    records: Iterable[HistoryRecord] | Recording = (),
    options: ClusterOptions | None = None,
) -> ClusterReport:
    """Decides the invariants of one cluster's history.

    Args:
        transactions: everything that the server accepted and refused, in any order.
        records: what brokers recorded, in any order (`zkgroup.history.cluster.checker`).
        options: what the log does not say.
    """
    options = options or ClusterOptions()
    ordered, damage = in_time(records)
    log = tuple(sorted(transactions, key=lambda transaction: transaction.zxid))
    figures = ClusterFigures()
    decided = set(DECIDED_BY_SERVER)
    violations: list[Violation] = list(ClusterLogChecker(log, options, figures).run())
    if options.quiet_from_ms is not None:
        decided |= DECIDED_AT_REST
        violations += check_convergence(log, options)
    if ordered:
        violations += check_roles(ordered)
        violations += check_records(ordered, figures)
        decided.update(RECORDS for record in ordered if record.kind == "records.kept")
    return ClusterReport(tuple(violations), frozenset(decided), figures, damage)
