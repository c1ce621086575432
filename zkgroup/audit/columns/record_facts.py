"""Zxid, time and digest of each record of a server alone, as columns: what `record_checks` looks at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zkgroup.audit.columns.codes import ERROR
from zkgroup.audit.columns.logs import (
    OP_CODES,
    NotPlainError,
    codes_of,
    followed,
    numbers_of_column,
    plain_batches,
)
from zkgroup.audit.columns.rows import Flags, Numbers
from zkgroup.zkfiles.batches import Fixed
from zkgroup.zkfiles.history import History


class RecordFacts(NamedTuple):
    """A place for each record, by zxid."""

    zxid: Numbers
    time_ms: Numbers
    has_digest: Flags
    is_error: Flags
    """Whether it is a single request that was refused."""


def record_facts(history: History) -> RecordFacts | None:
    """Those of all records; None where the logs need a closer look, or have a record without an operation."""
    servers = history.ensemble.servers
    logs = servers[0].files.logs
    if len(servers) != 1 or not logs:
        return None
    parts: list[tuple[Numbers, ...]] = []
    last = logs[0].zxid - 1
    try:
        for batch in plain_batches(servers[0], 0, None, ("zxid", "sub", "time", "op", "digest")):
            zxid, sub = numbers_of_column(batch, "zxid"), numbers_of_column(batch, "sub")
            begins = np.append([last], zxid[:-1]) != zxid
            last = followed(last, zxid, sub)
            digest = batch.packed("digest")
            if isinstance(digest, Fixed):
                present = np.ones(batch.rows, np.bool_) if digest.present is None else digest.present != 0
            else:
                present = np.array([value is not None for value in batch["digest"]], np.bool_)
            is_error = (codes_of(batch, "op", OP_CODES) == ERROR) & (sub < 0)
            time_ms = numbers_of_column(batch, "time")
            parts.append(tuple(column[begins] for column in (zxid, time_ms, present, is_error)))
    except NotPlainError:
        return None
    if not parts or last != servers[0].last_logged(logs[-1]):
        return None
    return RecordFacts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
