"""One pass over all records of a history, for the findings about the ensemble itself.

They look at every record before any filter, and share what one pass showed. Memory: the notes.
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
        checks = RecordChecks()
        for transaction in history.transactions():
            checks.see(transaction)
        _known[history] = checks
    return checks


def _keep(notes: list[_Note], note: _Note) -> None:
    if len(notes) < _KEPT:
        notes.append(note)
