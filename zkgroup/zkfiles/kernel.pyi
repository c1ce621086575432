# The compiled kernel, kernel.c. It is there where a compiler was when zkgroup was installed.

from typing import Any, TypeAlias

_Buffer: TypeAlias = Any

# Another one whenever the functions take or give something else.
VERSION: int

# Whole records from a place on: how many, and what `frames.find` says last. Their places are written into
# two buffers of 64-bit numbers, as many as fit.
def find(data: bytes, at: int, starts: _Buffer, ends: _Buffer) -> tuple[int, int]: ...

# Of records `first` to `until` those that make a batch of so many rows: the one behind them, how many rows
# they have at most, whether the one behind them is past `to_zxid`; and of those with rows the numbers of the
# last one and of the first with the latest time, -1 for none. None where a record is odd.
def measure(
    data: bytes,
    starts: _Buffer,
    ends: _Buffer,
    first: int,
    until: int,
    from_zxid: int,
    to_zxid: int,
    rows: int,
) -> tuple[int, int, int, int, int] | None: ...

# Fills columns with the rows of these records whose path has the prefix. `left_out` has the texts of
# `schemas.LeftOutWrites`, and the numbers of two records of which all stays. Gives how many rows they are,
# how many of the records have any, and pairs of 32-bit numbers: where the ACLs are that codes from 2 on
# stand for. None where a record is odd, or where there are more rows than room was made for; the columns
# are worth nothing then. `columns` has their order.
def fill(
    data: bytes,
    starts: _Buffer,
    ends: _Buffer,
    first: int,
    until: int,
    from_zxid: int,
    to_zxid: int,
    rows: int,
    prefix: bytes | None,
    left_out: tuple[str, str, str | None, int, int] | None,
    columns: tuple[_Buffer | None, ...],
) -> tuple[int, int, bytes] | None: ...
