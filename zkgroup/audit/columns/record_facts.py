"""Zxid, time and digest of each record of a server alone, as columns: what `record_checks` looks at."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from zkgroup.audit.columns.batch_values import (
    OP_CODES,
    codes_of,
    followed,
    numbers_of_column,
    plain_batches,
)
from zkgroup.audit.columns.codes import ERROR
from zkgroup.audit.columns.rows import Flags, Numbers
from zkgroup.zkfiles.batches import Batch, FixedWidth
from zkgroup.zkfiles.column_replay import NotPlainError
from zkgroup.zkfiles.history import History


class RecordFacts(NamedTuple):
    """A place for each record, by zxid."""

    zxid: Numbers
    time_ms: Numbers
    has_digest: Flags
    is_error: Flags
    """Whether it is a single request that was refused."""


_noted: WeakKeyDictionary[History, RecordFacts] = WeakKeyDictionary()


class RecordFactsBuilder:
    """Takes the batches of all logs of a server in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, ...]] = []

    def add(self, batch: Batch, last: int, zxids: Numbers, subs: Numbers) -> None:
        """One batch, with its zxids and places; `last` is the zxid before it."""
        begins = np.append([last], zxids[:-1]) != zxids
        digest = batch.packed("digest")
        if isinstance(digest, FixedWidth):
            present = np.ones(batch.rows, np.bool_) if digest.present is None else digest.present != 0
        else:
            present = np.array([value is not None for value in batch["digest"]], np.bool_)
        is_error = (codes_of(batch, "op", OP_CODES) == ERROR) & (subs < 0)
        time_ms = numbers_of_column(batch, "time")
        self._parts.append(tuple(column[begins] for column in (zxids, time_ms, present, is_error)))

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
    """Those of all records; None where the logs need a closer look, or have a record without an operation."""
    servers = history.ensemble.servers
    logs = servers[0].files.logs
    if len(servers) != 1 or not logs:
        return None
    end = servers[0].last_logged(logs[-1])
    noted = _noted.get(history)
    if noted is not None and noted.zxid[-1] == end:
        return noted
    builder = RecordFactsBuilder()
    last = logs[0].zxid - 1
    try:
        for batch in plain_batches(servers[0], 0, None, ("zxid", "sub", "time", "op", "digest")):
            zxids, subs = numbers_of_column(batch, "zxid"), numbers_of_column(batch, "sub")
            builder.add(batch, last, zxids, subs)
            last = followed(last, zxids, subs)
    except NotPlainError:
        return None
    return builder.facts() if last == end else None
