# The compiled kernel, kernel.c. It exists if the install of zkgroup had a compiler.

from typing import Any

# It changes whenever the functions take or return something else.
VERSION: int

# Whole records from a place on: their number, and the last value of `frames.find`. Their places go into
# two buffers of 64-bit numbers, as many as fit.
def find(data: bytes, at: int, starts: Any, ends: Any) -> tuple[int, int]: ...

# Of the records of data, starts and ends, from `first` to `until`, those between two zxids that make a batch
# of so many rows: the one behind them, the most rows that they have, whether the one behind them is past
# the last zxid; and of those with rows the numbers of the last one and of the first with the latest time, -1
# for none. None where a record is odd.
def measure(data: bytes, starts: Any, ends: Any, *numbers: int) -> tuple[int, int, int, int, int] | None: ...

# Fills columns with the rows of such records; then come the number of rows with room, the prefix of
# their paths or None, the writes to leave out or None, the columns in the order of `columns`, None for one
# that is not wanted. The writes to leave out are the texts of `arrow.LeftOutWrites`, and the numbers of two
# records whose rows all stay. Returns the number of rows, that of records with any, and pairs of
# 32-bit numbers: the places of the ACLs with the codes from 2 on. None where a record is odd, or where
# there are more rows than room; the columns are invalid then.
def fill(data: bytes, starts: Any, ends: Any, *others: Any) -> tuple[int, int, bytes] | None: ...

# The CRC-32s of slices of some bytes, each continued from another one. `bounds` are 32-bit numbers, where the
# first slice starts and where each ends; seeds and sums are 64-bit numbers, one a slice.
def crcs(data: Any, bounds: Any, seeds: Any, sums: Any) -> None: ...
