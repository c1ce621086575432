"""Zxid, time and digest of each record of a history, as columns: what `record_checks` looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from zkgroup.audit.inputs.batch_values import OP_CODES, codes_of, numbers_of_column
from zkgroup.audit.inputs.codes import ERROR
from zkgroup.audit.inputs.rows import Flags, Numbers
from zkgroup.zkfiles.agreement import Piece, pieces
from zkgroup.zkfiles.batches import Batch, FixedWidth
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.log_lists import ALL_ZXIDS, Wanted
from zkgroup.zkfiles.records import TransactionType
from zkgroup.zkfiles.schemas import LOG, select


class RecordFacts(NamedTuple):
    """A place for each record, by zxid."""

    zxid: Numbers
    time_ms: Numbers
    has_digest: Flags
    is_error: Flags
    """True if it is a single request that was refused."""


_noted: WeakKeyDictionary[History, RecordFacts] = WeakKeyDictionary()


class RecordFactsBuilder:
    """Takes the pieces of all logs in order, with their batches."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, ...]] = []

    def add(self, piece: Piece, batches: Sequence[Batch]) -> None:
        """One piece, of which no row is left out."""
        parts = [_of_batch(batch) for batch in batches]
        missing = np.setdiff1d(
            piece.zxids, np.concatenate([np.zeros(0, np.int64), *(each[0] for each in parts)])
        )
        if len(missing):
            # A multi without operations has no row.
            parts += [
                (
                    np.array([each.zxid]),
                    np.array([each.time_ms]),
                    np.array([each.digest is not None]),
                    np.array([each.type == TransactionType.ERROR]),
                )
                for each in piece.transactions(missing)
            ]
            columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
            order = np.argsort(columns[0])
            parts = [tuple(column[order] for column in columns)]
        self._parts += parts

    def facts(self) -> RecordFacts | None:
        """None without a record."""
        if not self._parts:
            return None
        return RecordFacts(*(np.concatenate(columns) for columns in zip(*self._parts, strict=True)))

    def note(self, history: History) -> None:
        """Keeps the facts for `record_facts`: all logs of this history were read."""
        facts = self.facts()
        if facts is not None:
            _noted[history] = facts


def record_facts(history: History) -> RecordFacts | None:
    """Those of all records; None without a record."""
    noted = _noted.get(history)
    if noted is not None and noted.zxid[-1] == history.ensemble.last_record:
        return noted
    builder = RecordFactsBuilder()
    columns = select(LOG, ("zxid", "sub", "time", "op", "digest"))
    for piece in pieces(history.ensemble):
        builder.add(piece, list(piece.batches(Wanted(columns, "", *ALL_ZXIDS, None, ROWS_PER_BATCH))))
    return builder.facts()


def _of_batch(batch: Batch) -> tuple[Numbers, ...]:
    zxids, subs = numbers_of_column(batch, "zxid"), numbers_of_column(batch, "sub")
    begins = np.append([True], zxids[1:] != zxids[:-1])
    digest = batch.packed("digest")
    if isinstance(digest, FixedWidth):
        present = np.ones(batch.rows, np.bool_) if digest.present is None else digest.present != 0
    else:
        present = np.array([value is not None for value in batch["digest"]], np.bool_)
    is_error = (codes_of(batch, "op", OP_CODES) == ERROR) & (subs < 0)
    time_ms = numbers_of_column(batch, "time")
    return tuple(column[begins] for column in (zxids, time_ms, present, is_error))
