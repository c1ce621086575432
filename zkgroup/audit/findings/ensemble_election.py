"""Elections of ZooKeeper's own leader, and how long nothing was written.

A row for each change of the epoch, from the last record before to the first one behind. A server alone has
none.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.record_checks import record_checks_of
from zkgroup.audit.rules import Bounds, Finding, WholeRule
from zkgroup.audit.texts import count_text, duration_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.zxids import epoch_of


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    for step in record_checks_of(history).elections:
        before, after = epoch_of(step.from_zxid), epoch_of(step.to_zxid)
        silence = duration_text(step.to_ms - step.from_ms)
        idle = after - before - 1
        more = f"; {count_text(idle, 'epoch')} between them without a write" if idle > 0 else ""
        yield Finding(
            RULE.name,
            RULE.severity,
            from_zxid=step.from_zxid,
            to_zxid=step.to_zxid,
            from_ms=step.from_ms,
            to_ms=step.to_ms,
            detail=f"epoch {before} -> {after}, no write for {silence}{more}",
        )


RULE = WholeRule(
    name="ensemble_election",
    severity="info",
    question="When did ZooKeeper's servers elect a leader, and how long was nothing written?",
    needs=("log",),
    act="Look at the servers' logs of that time: a leader that was lost, a quorum that was not there. In such"
    " a time clients cannot write, and sessions can expire at its end.",
    find=_find,
)
