"""One pass over all records of a history, for the findings about the ensemble itself.

They read every record before any filter, and share what one pass showed. Memory: the notes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Transaction, TransactionType
from zkgroup.zkfiles.zxids import Hole, epoch_of, hole_between

_KEPT: Final = 10_000
"""So many notes of a kind are kept, the first ones."""

_Note = TypeVar("_Note")


class Step(NamedTuple):
    """Two records, one behind the other."""

    from_zxid: int
    from_ms: int
    to_zxid: int
    to_ms: int


class RecordChecks:
    """What the records of a history look like from outside. `see` takes them by zxid."""

    def __init__(self) -> None:
        self.elections: list[Step] = []
        """The last record of an epoch and the first of the next one."""
        self.steps_back: list[Step] = []
        """Where the leader's clock read less than at the record before."""
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

    def see(self, transaction: Transaction) -> None:
        zxid, ms = transaction.zxid, transaction.time_ms
        if transaction.digest is not None:
            self.with_digest += 1
            if self.first_digest is None:
                self.first_digest = zxid
        elif transaction.type != TransactionType.ERROR:
            self.without_digest += 1
        if self.last is None:
            self.first = zxid, ms
        else:
            step = Step(*self.last, zxid, ms)
            if epoch_of(zxid) != epoch_of(step.from_zxid):
                _keep(self.elections, step)
            if ms < step.from_ms:
                _keep(self.steps_back, step)
            hole = hole_between(step.from_zxid, zxid)
            if hole is not None:
                _keep(self.holes, (hole, step))
        self.last = zxid, ms


_known: WeakKeyDictionary[History, RecordChecks] = WeakKeyDictionary()


def record_checks_of(history: History) -> RecordChecks:
    """The checks of a history, made at the first call."""
    checks = _known.get(history)
    if checks is None:
        checks = _of_columns(history)
        if checks is None:
            checks = RecordChecks()
            for transaction in history.transactions():
                checks.see(transaction)
        _known[history] = checks
    return checks


def _of_columns(history: History) -> RecordChecks | None:
    """The same from columns; None where the records need the exact reader.

    In such logs no zxid is missing.
    """
    from zkgroup.audit.columns.record_facts import record_facts

    records = record_facts(history)
    if records is None:
        return None
    checks = RecordChecks()
    zxid, time_ms = records.zxid, records.time_ms
    checks.first = int(zxid[0]), int(time_ms[0])
    checks.last = int(zxid[-1]), int(time_ms[-1])
    with_digest = records.has_digest.nonzero()[0]
    checks.with_digest = len(with_digest)
    checks.first_digest = int(zxid[with_digest[0]]) if len(with_digest) else None
    checks.without_digest = int((~records.has_digest & ~records.is_error).sum())
    is_election = (zxid[1:] >> 32) != (zxid[:-1] >> 32)
    for notes, mask in ((checks.elections, is_election), (checks.steps_back, time_ms[1:] < time_ms[:-1])):
        for place in mask.nonzero()[0][:_KEPT].tolist():
            ends = zxid[place], time_ms[place], zxid[place + 1], time_ms[place + 1]
            notes.append(Step(*map(int, ends)))
    return checks


def _keep(notes: list[_Note], note: _Note) -> None:
    if len(notes) < _KEPT:
        notes.append(note)
