"""The checks of all records of a history, record by record: what `record_checks` computes in columns."""

from __future__ import annotations

from typing import TypeVar

from zkgroup.audit.record_checks import KEPT, RecordChecks, Step
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import Transaction, TransactionType
from zkgroup.zkfiles.zxids import epoch_of, hole_between

_Note = TypeVar("_Note")


def checks_of(history: History) -> RecordChecks:
    """Those of all records."""
    checks = RecordChecks()
    for transaction in history.transactions():
        _see(checks, transaction)
    return checks


def _see(checks: RecordChecks, transaction: Transaction) -> None:
    zxid, ms = transaction.zxid, transaction.time_ms
    if transaction.digest is not None:
        checks.with_digest += 1
        if checks.first_digest is None:
            checks.first_digest = zxid
    elif transaction.type != TransactionType.ERROR:
        checks.without_digest += 1
    if checks.last is None:
        checks.first = zxid, ms
    else:
        step = Step(*checks.last, zxid, ms)
        if epoch_of(zxid) != epoch_of(step.from_zxid):
            _keep(checks.elections, step)
        if ms < step.from_ms:
            _keep(checks.steps_back, step)
        hole = hole_between(step.from_zxid, zxid)
        if hole is not None:
            _keep(checks.holes, (hole, step))
    checks.last = zxid, ms


def _keep(notes: list[_Note], note: _Note) -> None:
    if len(notes) < KEPT:
        notes.append(note)
