"""One pass over all records of a history, for the findings about the ensemble itself.

They read every record before any filter, and share what one pass showed. Memory: the notes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.zxids import Hole, hole_between

KEPT: Final = 10_000
"""So many notes of a kind are kept, the first ones."""


class Step(NamedTuple):
    """Two records, one behind the other."""

    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int


class RecordChecks:
    """The records of a history, seen from outside."""

    def __init__(self) -> None:
        self.elections: list[Step] = []
        """The last record of an epoch and the first of the next one."""
        self.steps_back: list[Step] = []
        """Says where the leader's clock read less than at the record before."""
        self.holes: list[tuple[Hole, Step]] = []
        """Zxids that are missing, and the records on both sides."""
        self.first: tuple[int, int] | None = None
        """Zxid and time of the first record."""
        self.last: tuple[int, int] | None = None
        self.with_digest = 0
        self.without_digest = 0
        """Records that servers write a digest behind, where they write any, and that have none."""
        self.first_digest: int | None = None
        """The zxid of the first record with one."""


_known: WeakKeyDictionary[History, RecordChecks] = WeakKeyDictionary()


def record_checks_of(history: History) -> RecordChecks:
    """The checks of a history, made at the first call."""
    checks = _known.get(history)
    if checks is None:
        checks = _known[history] = _checks_of(history)
    return checks


def _checks_of(history: History) -> RecordChecks:
    from zkgroup.audit.inputs.logs import record_facts

    checks, records = RecordChecks(), record_facts(history)
    if records is None:
        return checks
    zxid, time_ms = records.zxid, records.time_ms
    checks.first = int(zxid[0]), int(time_ms[0])
    checks.last = int(zxid[-1]), int(time_ms[-1])
    with_digest = records.has_digest.nonzero()[0]
    checks.with_digest = len(with_digest)
    checks.first_digest = int(zxid[with_digest[0]]) if len(with_digest) else None
    checks.without_digest = int((~records.has_digest & ~records.is_error).sum())

    def steps(mask: Any) -> list[Step]:
        places = mask.nonzero()[0][:KEPT].tolist()
        ends = ((zxid[each], time_ms[each], zxid[each + 1], time_ms[each + 1]) for each in places)
        return [Step(*map(int, each)) for each in ends]

    checks.elections += steps((zxid[1:] >> 32) != (zxid[:-1] >> 32))
    checks.steps_back += steps(time_ms[1:] < time_ms[:-1])
    begins_epoch = ((zxid[1:] >> 32) > (zxid[:-1] >> 32)) & ((zxid[1:] & 0xFFFFFFFF) == 1)
    for step in steps((zxid[1:] != zxid[:-1] + 1) & ~begins_epoch):
        hole = hole_between(step.from_zxid, step.to_zxid)
        assert hole is not None
        checks.holes.append((hole, step))
    return checks
