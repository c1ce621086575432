"""Zxids that must have been and are in no file.

Looked for between any two records of all servers together, between the newest snapshot before the first
record and that record, and between the last record and a newer snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.facts import Facts
from zkgroup.audit.record_checks import record_checks_of
from zkgroup.audit.rules import Bounds, Finding, WholeRule
from zkgroup.audit.texts import count_text
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.zxids import Hole, epoch_of, hole_between


def _find(history: History, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    checks = record_checks_of(history)
    for missing, step in checks.holes:
        yield _finding(missing, step.from_ms, step.to_ms, "between two records")
    snapshots = [each.zxid for server in history.ensemble.servers for each in server.files.snapshots]
    if checks.first is None or checks.last is None:
        return
    first, first_ms = checks.first
    before = max((zxid for zxid in snapshots if zxid < first), default=None)
    if before is not None and (hole := hole_between(before, first)) is not None:
        yield _finding(hole, None, first_ms, f"between snapshot.{before:x} and the first record")
    last, last_ms = checks.last
    newest = max(snapshots, default=0)
    # A server that takes part in an election may write a snapshot before anything of the epoch was written.
    if newest > last and newest & 0xFFFF_FFFF:
        yield _finding(
            Hole(last + 1, newest), last_ms, None, f"between the last record and snapshot.{newest:x}"
        )


def _finding(hole: Hole, from_ms: int | None, to_ms: int | None, where: str) -> Finding:
    is_of_one = epoch_of(hole.first_missing) == epoch_of(hole.last_missing)
    missing = hole.last_missing - hole.first_missing + 1
    how_many = (
        f"{count_text(missing, 'zxid is', 'zxids are')} in no file" if is_of_one else "zxids are in no file"
    )
    return Finding(
        RULE.name,
        RULE.severity,
        from_zxid=hole.first_missing,
        to_zxid=hole.last_missing,
        from_ms=from_ms,
        to_ms=to_ms,
        detail=f"{how_many}, {where}",
    )


RULE = WholeRule(
    name="history_hole",
    severity="error",
    question="Which transactions are missing in the files?",
    needs=("log",),
    act="Within an epoch zxids have no gaps, so a log is missing, damaged, or was never on this server: one"
    " that was far behind is given a snapshot. Add the folders of the other servers (`--input` takes several)"
    ", or the archive. What other findings say about that time may be wrong.",
    find=_find,
)
