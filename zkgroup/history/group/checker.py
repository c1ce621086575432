"""The checker of a group: decides all invariants of one history, and returns one report. Pure.

In simulation the memory server's log decides what was accepted; on real servers the members' records do.
`Report.decided` names the invariants that the history could decide; the others are not reported as holding.
"""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.errors import ConfigError
from zkgroup.history.group.assignment_invariants import (
    check_convergence_by_log,
    check_convergence_by_records,
    check_views,
)
from zkgroup.history.group.commit_invariants import Acknowledgements, ProcessedCommitChecker
from zkgroup.history.group.member_invariants import DECIDED as DECIDED_BY_RECORDS
from zkgroup.history.group.member_invariants import check_chains, check_deliveries
from zkgroup.history.group.replay import CheckOptions, GroupEvidence, groups_in
from zkgroup.history.group.server_invariants import DECIDED as DECIDED_BY_SERVER
from zkgroup.history.group.server_invariants import GroupLogChecker, half_claims
from zkgroup.history.records import HistoryRecord, Recording, in_time
from zkgroup.history.report import Figures, Report, Violation
from zkgroup.history.transactions import ServerTransaction

_BY_RECORDS = frozenset({"S7", "S8", "S9", "S10"})
_AT_REST = frozenset({"L1", "L2", "L3", "L4"})


def check_history(
    records: Iterable[HistoryRecord] | Recording,
    transactions: Iterable[ServerTransaction] = (),
    options: CheckOptions | None = None,
) -> Report:
    """Decides the invariants of one group's history.

    Args:
        records: what the members recorded, in any order.
        transactions: everything that the server accepted and refused, in any order; without it claims
            (S1-S4) and convergence (L1-L4) are decided from the records, commits (S5) claim by claim,
            outcomes (S6) and half claims (S22) not at all.
        options: what the records and the log do not say.

    Raises:
        ConfigError: the log holds several groups and the options name none.
    """
    options = options or CheckOptions()
    ordered, damage = in_time(records)
    log = tuple(sorted(transactions, key=lambda transaction: transaction.zxid))
    evidence = GroupEvidence(ordered, log, _group(log, options), options)

    figures = Figures()
    _count(evidence, figures)
    violations: list[Violation] = []
    decided: set[str] = set()
    audit = GroupLogChecker(evidence, figures)
    if log:
        decided |= DECIDED_BY_SERVER
        violations += audit.run()
        if evidence.records:
            decided.add("S22")
            violations += half_claims(evidence, audit)
    if evidence.records:
        decided |= _BY_RECORDS | DECIDED_BY_RECORDS
        # The chains are checked with a server's log too, as a check of the records.
        violations += check_chains(evidence, Figures() if log else figures)
        violations += check_deliveries(evidence, figures)
        violations += check_views(evidence, figures)
        violations += _commits(evidence, Acknowledgements(evidence, audit.writes), decided)
    if options.quiet_from_ms is not None and (log or evidence.records):
        decided |= _AT_REST
        violations += check_convergence_by_log(evidence) if log else check_convergence_by_records(evidence)
    return Report(tuple(violations), frozenset(decided), figures, damage)


def _commits(
    evidence: GroupEvidence, acknowledgements: Acknowledgements, decided: set[str]
) -> list[Violation]:
    """Compares commits with processed records (S5), and reported outcomes with the log (S6)."""
    found: list[Violation] = []
    if evidence.transactions:
        decided.add("S6")
        found += acknowledgements.check()
    processed = ProcessedCommitChecker(evidence, acknowledgements)
    if processed.is_decidable:
        decided.add("S5")
        found += processed.check()
    return found


def _group(log: tuple[ServerTransaction, ...], options: CheckOptions) -> str:
    if options.group is not None:
        return options.group
    groups = groups_in(log)
    if len(groups) > 1:
        raise ConfigError(f"the log holds the groups {', '.join(sorted(groups))}: name one in the options")
    return next(iter(groups), "")


def _count(evidence: GroupEvidence, figures: Figures) -> None:
    figures.records = len(evidence.records)
    for record in evidence.records:
        operation, _, outcome = record.kind.partition(".")
        if operation in ("claim", "commit", "release"):
            figures.operations += outcome == "invoke"
            figures.unknown_outcomes += outcome == "info"
        if not evidence.transactions and record.kind in ("commit.fail", "release.fail"):
            figures.refused_commits += 1
            figures.refused_stale_commits += record.fields.get("reason") in ("BadVersion", "NoNode")
        figures.lease_expiries += record.kind == "lease.expired"
        figures.resets_applied += record.kind == "reset.applied"
