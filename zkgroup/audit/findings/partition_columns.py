"""Owner and offset of each partition of each group, row by row: `partition_offsets` in columns.

A key with a row that only the exact reader understands, such as an offset that is no plain number, is `odd`:
every screen keeps it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.events import CREATE, DELETE, SET
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers
from zkgroup.audit.inputs.selection import Selection
from zkgroup.znodes.paths import path_kind

_PLAIN_DIGITS: Final = 18
"""So many are below 2**63 whatever they are."""


class PartitionTable:
    """Rows key by key, each in order. What is true of a row is told on the state just before it."""

    def __init__(self, columns: Columns, rows: Selection) -> None:
        self.selection = rows
        numbers, keys = rows.rows, rows.codes
        self.op = columns.op[numbers]
        self.session = columns.session[numbers]
        self.zxid = columns.zxid[numbers]
        self.time_ms = columns.time_ms[numbers]
        self.seed = columns.seed[numbers]
        self.is_first, self.start = begins(keys)
        """True if a row is the first of its key; where its key begins."""
        self.is_last: Flags = np.append(self.is_first[1:], True)[: len(numbers)]
        of_path = np.array([path_kind(path).kind == "owner" for path in columns.paths], np.bool_)
        self.is_owner: Flags = of_path[columns.path[numbers]]
        self.is_change: Flags = self.is_owner & ((self.op == CREATE) | (self.op == DELETE))
        """Of an owner: it comes or goes."""
        self.change: Numbers = last_with(self.is_change, self.start)
        """The last of these at a row, itself included; -1 for none."""
        self.change_before: Numbers = before(self.change, self.is_first)
        self.holder: Numbers = np.where(
            (self.change >= 0) & (self.op[self.change] == CREATE), self.change, -1
        )
        """The row of the claim by which the partition is owned behind a row; -1 where nobody owns it."""
        self._offsets(columns, numbers)

    def _offsets(self, columns: Columns, numbers: Numbers) -> None:
        is_offset = ~self.is_owner
        self.is_write: Flags = is_offset & ((self.op == CREATE) | (self.op == SET))
        values, is_plain = plain_numbers(columns.data.take(pa.array(numbers[self.is_write])))
        self.value: Numbers = np.zeros(len(numbers), np.int64)
        self.value[self.is_write] = values
        self.odd = self.selection.keys_with(_placed(self.is_write, ~is_plain))
        self.last_write: Numbers = last_with(self.is_write | (is_offset & (self.op == DELETE)), self.start)
        """The last write or deletion of the offset at a row."""
        earlier = before(self.last_write, self.is_first)
        has_previous = self.is_write & (self.op == SET) & (earlier >= 0) & (self.op[earlier] != DELETE)
        previous = self.value[earlier]
        holder = self.holder
        self.by_holder: Flags = (holder >= 0) & (self.session[holder] == self.session)
        """True if the row is of the session that owns the partition."""
        is_claim = (holder >= 0) & (self.zxid[holder] == self.zxid) & ~self.seed
        is_claim &= ~has_previous | (self.value == previous)
        self.is_claim: Flags = self.is_write & is_claim
        self.is_commit: Flags = self.is_write & ~is_claim & ~self.seed
        self.falls: Flags = has_previous & (self.value < previous) & (previous >= 0)
        self.repeats: Flags = has_previous & (self.value == previous)
        self.holder_known: Flags = last_with(self.is_owner, self.start) >= 0
        """True if a row of the owner was seen."""
        self.exists: Flags = (self.last_write >= 0) & (self.op[self.last_write] != DELETE)
        """True if there is an offset znode behind a row."""

    def keys_with(self, mask: Flags) -> Selection:
        """All rows of the keys that have a row in the mask, and of odd ones."""
        return self.selection.of_keys(self.selection.keys_with(mask) | self.odd)

    def owners_of(self, flags: Flags) -> Selection:
        """The owner rows of some keys."""
        return self.selection.where(self.is_owner & flags[self.selection.codes])


def begins(codes: Numbers) -> tuple[Flags, Numbers]:
    """For each place of sorted codes: whether a code begins there, and where its code began."""
    is_first: Flags = np.append([True], codes[1:] != codes[:-1])[: len(codes)]
    start: Numbers = np.maximum.accumulate(np.where(is_first, np.arange(len(codes)), 0))
    return is_first, start


def last_with(mask: Flags, start: Numbers) -> Numbers:
    """For each place: the last place in the mask at or before it, within its key; -1 for none."""
    places = np.where(mask, np.arange(len(mask)), -1)
    latest: Numbers = np.maximum.accumulate(places) if len(places) else places
    return np.where(latest >= start, latest, -1)


def before(places: Numbers, is_first: Flags) -> Numbers:
    """For each place what the place before it has; -1 at the beginning of a key."""
    shifted: Numbers = np.append([-1], places[:-1])[: len(places)]
    shifted[is_first] = -1
    return shifted


def plain_numbers(data: pa.Array) -> tuple[Numbers, Flags]:
    """Offsets as numbers, and whether they are such: up to 18 digits, or -1; the others are 0."""
    texts = pc.fill_null(data, b"").cast(pa.binary())
    is_none = pc.equal(texts, b"-1")
    texts = pc.if_else(is_none, b"1", texts).view(pa.string())
    is_plain = pc.and_(pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), _PLAIN_DIGITS))
    values: Numbers = pc.if_else(is_plain, texts, "0").cast(pa.int64()).to_numpy(zero_copy_only=False)
    sign = np.where(is_none.to_numpy(zero_copy_only=False), -1, 1)
    return values * sign, is_plain.to_numpy(zero_copy_only=False)


def _placed(mask: Flags, flags: Flags) -> Flags:
    """Flags of the places in a mask as flags of all places."""
    placed: Flags = np.zeros(len(mask), np.bool_)
    placed[mask] = flags
    return placed
