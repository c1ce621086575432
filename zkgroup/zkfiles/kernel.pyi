# The compiled kernel, kernel.c. It is there where a compiler was when zkgroup was installed.

from typing import Any, TypeAlias

_Buffer: TypeAlias = Any

# Whole records from a place on: how many, and what `frames.Find` calls needed. Their places are written into
# two buffers of 64-bit numbers, as many as fit.
def find(data: bytes, at: int, starts: _Buffer, ends: _Buffer) -> tuple[int, int]: ...

# Of records `first` to `until` those that make a batch of so many rows: the one behind them, how many rows
# they have at most, and whether the one behind them is past `to_zxid`. None where a record is odd.
def measure(
    data: bytes,
    starts: _Buffer,
    ends: _Buffer,
    first: int,
    until: int,
    from_zxid: int,
    to_zxid: int,
    rows: int,
) -> tuple[int, int, int] | None: ...

# Fills columns with the rows of these records whose path has the prefix. Gives how many they are, and pairs
# of 32-bit numbers: where the ACLs are that codes from 2 on stand for. None where a record is odd, or where
# there are more rows than room was made for; the columns are worth nothing then. `compiled` has their order.
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
    columns: tuple[_Buffer | None, ...],
) -> tuple[int, bytes] | None: ...
