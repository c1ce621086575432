"""The batches of a server's logs, and their columns as numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from zkgroup.audit.columns.codes import LIFETIMES, OPS
from zkgroup.audit.columns.rows import Numbers
from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.batches import Batch, Coded, FixedWidth, Same
from zkgroup.zkfiles.column_replay import NotPlainError
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.log_lists import LeftOutWrites
from zkgroup.zkfiles.servers import Server
from zkgroup.zkfiles.zxids import hole_between

OP_CODES: Final = {op: code for code, op in enumerate(OPS)} | {None: -1}
LIFETIME_CODES: Final = {lifetime: code for code, lifetime in enumerate(LIFETIMES)}


def plain_batches(
    server: Server,
    from_zxid: int,
    to_zxid: int | None,
    wanted: Sequence[str],
    left_out: LeftOutWrites | None = None,
) -> Iterator[Batch]:
    """Columns of all logs of a server. Raises NotPlainError at a damage."""
    try:
        for log in server.files.logs_within(from_zxid, to_zxid):
            yield from log_columns(
                log.path,
                columns=wanted,
                from_zxid=from_zxid,
                to_zxid=to_zxid,
                left_out=left_out,
                oversized=server.oversized_in(log.path),
            )
    except (DamagedFileError, NotZooKeeperFileError) as error:
        raise NotPlainError(str(error)) from error


def followed(last: int, zxids: Numbers, subs: Numbers) -> int:
    """The last zxid of a batch, which begins behind one, and in which each follows the one before."""
    before = np.concatenate(([last], zxids[:-1]))
    is_same = zxids == before
    is_next_place = np.concatenate(([False], subs[1:] == subs[:-1] + 1))
    is_odd = (is_same & ~is_next_place) | (~is_same & (zxids != before + 1))
    for place in np.flatnonzero(is_odd).tolist():
        zxid, earlier = int(zxids[place]), int(before[place])
        if zxid <= earlier or hole_between(earlier, zxid) is not None:
            raise NotPlainError(f"zxid {zxid:#x} behind {earlier:#x}")
    return int(zxids[-1])


def numbers_of_column(batch: Batch, name: str) -> Numbers:
    """A column without nulls; times in milliseconds."""
    packed = batch.packed(name)
    if isinstance(packed, FixedWidth):
        values: Numbers = packed.values.astype(np.int64)
        return values
    return np.array(batch[name], np.int64)


def codes_of(batch: Batch, name: str, codes: dict[Any, int]) -> Numbers:
    """A column of few different values, as their codes."""
    packed = batch.packed(name)
    if isinstance(packed, Coded):
        known: Numbers = np.array([codes[value] for value in packed.values], np.int8)[packed.codes]
        return known
    if isinstance(packed, Same):
        return np.full(batch.rows, codes[packed.value], np.int8)
    return np.array([codes[value] for value in batch[name]], np.int8)
