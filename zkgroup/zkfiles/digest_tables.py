"""The CRCs of many znodes at once. A CRC is linear: that of 60 bytes is the XOR of what each byte adds.

So what seldom changes of a znode is looked up once, and the digest of a change costs a few lookups.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

_ALL: Final = 0xFFFFFFFF
_SIZE: Final = 60
CZXID, MZXID, PZXID, CTIME, MTIME, VERSION, CVERSION, AVERSION, OWNER = 0, 8, 16, 24, 32, 40, 44, 48, 52
"""Where each field stands in the bytes that are counted of a znode."""


def _tables() -> Numbers:
    """For each place the CRC state that each byte there leads to, from state zero, at the end."""
    one: Numbers = np.array([crc32(bytes([value]), _ALL) ^ _ALL for value in range(256)], np.uint32)
    tables = np.zeros((_SIZE, 256), np.uint32)
    tables[_SIZE - 1] = one
    for place in range(_SIZE - 2, -1, -1):
        later = tables[place + 1]
        tables[place] = one[later & 0xFF] ^ (later >> 8)
    return tables


_TABLES: Final = _tables()


def added_by(place: int, values: Numbers, *, is_long: bool) -> Numbers:
    """What numbers at a place add to the CRC: longs of 8 bytes, or ints of 4."""
    raw = np.ascontiguousarray(values, ">i8" if is_long else ">i4")
    columns = raw.view(np.uint8).reshape(len(values), 8 if is_long else 4)
    added: Numbers = np.zeros(len(values), np.uint32)
    for number in range(columns.shape[1]):
        column = columns[:, number]
        if column.any():
            added ^= _TABLES[place + number][column]
    return added


def added_by_base(bases: Numbers) -> Numbers:
    """What the CRC of path and data, from which the count goes on, adds."""
    state = bases.astype(np.uint32) ^ np.uint32(_ALL)
    added: Numbers = np.zeros(len(bases), np.uint32)
    for number in range(4):
        added ^= _TABLES[number][(state >> np.uint32(8 * number)) & np.uint32(0xFF)]
    return added


def crc_of(added: Numbers) -> Numbers:
    """The CRCs, of what all bytes added."""
    crc: Numbers = (added ^ np.uint32(_ALL)).astype(np.int64)
    return crc
