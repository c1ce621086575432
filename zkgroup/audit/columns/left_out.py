"""Rows of a log that a question about one group does without: creates and sets of other groups' offsets.

Nine tenths of a log are commits. They are left out by the bytes of their paths, before texts, codes and
Arrow arrays are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from zkgroup.audit.columns.batch_values import LIFETIME_CODES, OP_CODES, codes_of
from zkgroup.audit.columns.codes import CREATE, SET
from zkgroup.audit.columns.logs import See
from zkgroup.audit.columns.rows import Flags, Numbers, first_places
from zkgroup.audit.columns.transactions import TransactionsBuilder
from zkgroup.zkfiles.batches import Batch, FixedWidth, Slices
from zkgroup.zkfiles.byte_arrays import Bytes

_GROUPS: Final = b"/consumers/"
_OFFSETS: Final = b"/offsets/"
_LENGTHS: Final = 100
"""So many lengths of groups' names are looked for; rows of others stay."""


def of_group(group: str) -> See:
    """Without what a question about this group does not need."""
    return lambda batch, _zxids: without_other_offsets(batch, group)


def of_sessions(transactions: TransactionsBuilder) -> See:
    """Without creates and sets of offsets, whose transactions are counted."""

    def see(batch: Batch, zxids: Numbers) -> Batch:
        transactions.add(batch, zxids)
        return without_other_offsets(batch, "")

    return see


def without_other_offsets(batch: Batch, group: str) -> Batch:
    """A batch without what `group` does not need; of the empty name, without any group's offsets.

    Facts and the names of groups are those of all rows: rows that are there for them stay. So only what was
    applied is left out, for a row that stays made the znode above, and what is below `/offsets/` of a group,
    where no facts are. The first row of each session stays, and the ends of zxids and times.
    """
    packed = batch.packed("path")
    path = packed if isinstance(packed, Slices) else _slices_of(batch["path"])
    if path is None:
        return batch
    op = codes_of(batch, "op", OP_CODES)
    is_kept = codes_of(batch, "ephemeral", LIFETIME_CODES) == 0
    is_write: Flags = ((op == SET) | ((op == CREATE) & is_kept)) & _values(batch, "applied").astype(np.bool_)
    left_out = _of_other_offsets(path, np.flatnonzero(is_write), group)
    kept: Flags = np.ones(batch.rows, np.bool_)
    kept[left_out] = False
    session, time = (_values(batch, name) for name in ("session", "time"))
    kept[first_places(session)] = True
    kept[[0, int(np.argmax(time)), batch.rows - 1]] = True
    numbers = np.flatnonzero(kept)
    if len(numbers) == batch.rows:
        return batch
    return batch.select(numbers)


def _of_other_offsets(path: Slices, rows: Numbers, group: str) -> Numbers:
    """Those of some rows whose path is below the offsets of another group."""
    source = Bytes(path.raw)
    starts, ends = path.bounds.reshape(-1, 2)[rows].T
    of_groups = source.begin_with(_GROUPS, starts, ends)
    rows, starts, ends = rows[of_groups], starts[of_groups], ends[of_groups]
    is_left_out: Flags = np.zeros(len(rows), np.bool_)
    unknown = np.arange(len(rows))
    # Groups whose names have one length have it at one place: few steps are enough for all rows.
    for _ in range(_LENGTHS):
        if not len(unknown):
            break
        # Behind the beginning of the group's name, for a group can be called `offsets`.
        start, end = int(starts[unknown[0]]), int(ends[unknown[0]])
        place = path.raw.find(_OFFSETS, start + len(_GROUPS), end)
        if place < 0:
            unknown = unknown[1:]
            continue
        have_it = source.begin_with(_OFFSETS, starts[unknown] + (place - start), ends[unknown])
        is_left_out[unknown[have_it]] = True
        unknown = np.delete(unknown, have_it)
    if group:
        is_left_out[source.begin_with(_GROUPS + group.encode() + b"/", starts, ends)] = False
    return rows[is_left_out]


def _slices_of(texts: Sequence[str | None]) -> Slices | None:
    """Texts one behind the other; None where one is beyond ASCII."""
    plain = [text or "" for text in texts]
    raw = "".join(plain)
    if not raw.isascii():
        return None
    ends = np.cumsum(list(map(len, plain)))
    starts = np.append([0], ends[:-1])
    return Slices(raw.encode(), np.stack((starts, ends), axis=1).reshape(-1))


def _values(batch: Batch, name: str) -> Numbers:
    packed = batch.packed(name)
    values: Numbers = packed.values if isinstance(packed, FixedWidth) else np.array(batch[name], np.int64)
    return values
