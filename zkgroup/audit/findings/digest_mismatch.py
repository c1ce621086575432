"""A replay that does not give the tree that the servers had.

Everything is replayed and compared with the servers' own digests, record by record. Where they wrote none
(before 3.6, or switched off) that is not applicable, which is said; instead each record has to fit the tree
before it (versions, counts of children, what it deletes), and each snapshot the tree replayed. A snapshot
that cannot be read is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.disagreements import disagreements
from zkgroup.audit.facts import Facts
from zkgroup.audit.record_checks import record_checks_of
from zkgroup.audit.rules import Bounds, Finding, Severity, WholeRule
from zkgroup.audit.texts import count_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.verification import Verification

_DOUBTS_TOLD = 20


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    verification = history.verify()
    for doubt in verification.doubts[:_DOUBTS_TOLD]:
        yield _finding("error", doubt.zxid, doubt.zxid, doubt.detail)
    for check in verification.snapshots:
        if check.agrees is False:
            severity: Severity = "warning" if check.is_damaged else "error"
            yield _finding(severity, check.zxid, check.zxid, f"{check.path.name}: {check.detail}")
    for each in disagreements(history):
        if each.is_of_digests_only:
            how_many = count_text(each.size, "digest is", "digests are")
            detail = f"{how_many} not the same on all servers: {each.sides}"
            yield _finding("error", each.from_zxid, each.to_zxid, detail)
    yield from _coverage(history, verification)


def _coverage(history: History, verification: Verification) -> Iterator[Finding]:
    """Never said to be clean: where servers wrote no digests, what was compared instead is reported."""
    checks = record_checks_of(history)
    if not checks.without_digest:
        return
    compared = sum(check.agrees is not None for check in verification.snapshots)
    instead = (
        f"compared instead were what {checks.without_digest} records say of the tree before them,"
        f" and {count_text(compared, 'snapshot')} with the tree replayed"
    )
    if verification.unchecked:
        instead += f"; {count_text(verification.unchecked, 'record')} could not be compared with anything"
    if checks.first_digest is None:
        yield _finding("info", None, None, f"not_applicable: the servers wrote no digests; {instead}")
    else:
        yield _finding(
            "info", None, None, f"not_applicable to all: digests begin at {checks.first_digest:#x}; {instead}"
        )


def _finding(severity: Severity, from_zxid: int | None, to_zxid: int | None, detail: str) -> Finding:
    return Finding(RULE.name, severity, from_zxid=from_zxid, to_zxid=to_zxid, detail=detail)


RULE = WholeRule(
    name="digest_mismatch",
    severity="error",
    question="Does a replay of the files give the trees that the servers had?",
    needs=("snapshot", "log"),
    act="From the first such zxid on the files do not show what happened, and what other findings report"
    " of later times may be wrong. A damaged or edited file, a log of another server among them, or a server"
    " whose memory is not that of the others: compare the servers' folders, and"
    " restart the one that differs with an empty folder, so that it copies the leader's tree.",
    find=_find,
)
