# The compiled steps of a replay, tree_kernel.c. They are there where a compiler was at the install.

from typing import Any, Self, TypeAlias

_Buffer: TypeAlias = Any

class Paths:
    # A number for each path, as `stretches.PathCodes`; the seed is of a hash.
    def __new__(cls, seed: int) -> Self: ...

    # Of the pieces of some bytes, told by pairs of 32-bit bounds and, or not, by flags. The codes are written
    # into a buffer of 64-bit numbers; -1 stands for null and for what is not counted.
    def codes(self, raw: bytes, bounds: _Buffer, present: _Buffer | None, codes: _Buffer) -> None: ...

    # Paths from a code on: each with the code of its parent and the CRC of its bytes.
    def paths_from(self, first: int) -> list[tuple[str, int, int]]: ...

# Of each row the CRC of its path and data, by the path's code and the CRCs of all paths (32 bits each); 0
# for rows whose code is negative. Codes and sums are 64-bit numbers.
def data_crcs(
    raw: bytes, bounds: _Buffer, present: _Buffer | None, codes: _Buffer, seeds: _Buffer, sums: _Buffer
) -> None: ...

# Applies rows to znodes: both, and the sessions that end, sorted, with how many ephemerals each has, are
# 64-bit numbers in the order of `compiled_replay`. Gives the numbers of records, of digests and of wrong
# ones, the first zxid with a wrong one, and the digest behind all. None for what is not plain; the znodes are
# worth nothing then.
def replay(
    columns: _Buffer, znodes: _Buffer, sessions: _Buffer, live: _Buffer, total: int
) -> tuple[int, int, int, int, int] | None: ...
