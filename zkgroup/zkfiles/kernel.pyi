# The compiled kernel, kernel.c. It is there where a compiler was when zkgroup was installed.

from typing import Any

# Another one whenever the functions take or give something else.
VERSION: int

# Whole records from a place on: how many, and what `frames.find` says last. Their places are written into
# two buffers of 64-bit numbers, as many as fit.
def find(data: bytes, at: int, starts: Any, ends: Any) -> tuple[int, int]: ...

# Of the records of data, starts and ends, from `first` to `until`, those between two zxids that make a batch
# of so many rows: the one behind them, how many rows they have at most, whether the one behind them is past
# the last zxid; and of those with rows the numbers of the last one and of the first with the latest time, -1
# for none. None where a record is odd.
def measure(data: bytes, starts: Any, ends: Any, *numbers: int) -> tuple[int, int, int, int, int] | None: ...

# Fills columns with the rows of such records; then come how many rows there is room for, the prefix of
# their paths or None, what is left out or None, and the columns in the order of `columns`, None for one
# that is not wanted. What is left out are the texts of `arrow.LeftOutWrites`, and the numbers of two
# records of which all stays. Gives how many rows they are, how many of the records have any, and pairs of
# 32-bit numbers: where the ACLs are that codes from 2 on stand for. None where a record is odd, or where
# there are more rows than room was made for; the columns are worth nothing then.
def fill(data: bytes, starts: Any, ends: Any, *others: Any) -> tuple[int, int, bytes] | None: ...

# The CRC-32s of pieces of some bytes, each continued from another one. `bounds` are 32-bit numbers, where the
# first piece starts and where each ends; seeds and sums are 64-bit numbers, one a piece.
def crcs(data: Any, bounds: Any, seeds: Any, sums: Any) -> None: ...
