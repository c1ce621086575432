"""The checker of brokers and controllers: one history in, one verdict out. Pure.

S11 one controller an epoch, and nobody else writes; S12 states are monotone; S13 the ISR is well-formed;
S14 no move is lost; S15 its floor of replicas; S16 no step is taken back; S17 one broker an id; and once
faults have ended, L6 one controller rules, L7 nothing that can be done is left undone. From records of
brokers: that they obeyed one controller at a time, and that every acknowledged line is still there.
"""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.history.broker_records import DECIDED as DECIDED_BY_RECORDS
from zkgroup.history.broker_records import LINES, check_lines, check_obedience
from zkgroup.history.cluster_invariants import DECIDED as DECIDED_BY_SERVER
from zkgroup.history.cluster_invariants import ClusterAudit
from zkgroup.history.cluster_report import ClusterFigures, ClusterOptions, ClusterReport
from zkgroup.history.cluster_settled import DECIDED as DECIDED_AT_REST
from zkgroup.history.cluster_settled import check_settled
from zkgroup.history.records import Record, Recording, in_order
from zkgroup.history.report import Violation
from zkgroup.history.transactions import ServerTransaction


def check_cluster(
    transactions: Iterable[ServerTransaction],
    records: Iterable[Record] | Recording = (),
    options: ClusterOptions | None = None,
) -> ClusterReport:
    """Decides the invariants of one cluster's history.

    Args:
        transactions: everything that the server accepted and refused, in any order.
        records: what brokers recorded, in any order (`zkgroup.history.broker_records`).
        options: what only the caller knows.
    """
    options = options or ClusterOptions()
    damage: tuple[str, ...] = ()
    if isinstance(records, Recording):
        damage = tuple(f"not a record: {line!r}" for line in records.broken)
        records = records.records
    log = tuple(sorted(transactions, key=lambda transaction: transaction.zxid))
    told = tuple(sorted(records, key=in_order))

    figures = ClusterFigures()
    decided = set(DECIDED_BY_SERVER)
    violations: list[Violation] = list(ClusterAudit(log, options, figures).run())
    if options.quiet_from_ms is not None:
        decided |= DECIDED_AT_REST
        violations += check_settled(log, options)
    if told:
        decided |= DECIDED_BY_RECORDS
        violations += check_obedience(told)
        violations += check_lines(told, figures)
        decided.update(LINES for record in told if record.kind == "lines.kept")
    return ClusterReport(tuple(violations), frozenset(decided), figures, damage)
