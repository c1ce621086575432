"""A leader's clock that went back.

By the time in a record and in the one before it, where the fall is `least_ms` or more.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.record_checks import record_checks_of
from zkgroup.audit.rules import Bounds, Finding, WholeRule
from zkgroup.audit.texts import duration_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.zxids import epoch_of


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    for step in record_checks_of(history).steps_back:
        back_ms = step.from_ms - step.to_ms
        if back_ms < bounds["least_ms"]:
            continue
        before, after = epoch_of(step.from_zxid), epoch_of(step.to_zxid)
        where = f"within epoch {after}" if before == after else f"at the election of epoch {after}"
        yield Finding(
            RULE.name,
            RULE.severity,
            from_zxid=step.to_zxid,
            to_zxid=step.to_zxid,
            from_ms=step.from_ms,
            to_ms=step.to_ms,
            detail=f"the leader's clock went back by {duration_text(back_ms)} {where}",
        )


RULE = WholeRule(
    name="clock_step",
    severity="warning",
    question="When did the time in the log go back although zxids rose?",
    needs=("log",),
    act="Durations across it are too short by as much, here and in every log of that time. Within an epoch"
    " one server's clock was set back: let it be slewed. At an election the new leader's clock is behind:"
    " compare the servers' clocks.",
    find=_find,
    bounds={"least_ms": 1},
)
