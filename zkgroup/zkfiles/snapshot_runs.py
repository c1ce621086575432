"""Many znodes of a snapshot at a time, where they lie one behind the other in what was read of the file.

Source: DataTree.serializeNode of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from zkgroup.zkfiles.jute import INT
from zkgroup.zkfiles.snapshots import STAT, RawZnode, SummedWindow, znodes_from

PIECE_BYTES: Final = 1 << 20
"""What is read at a time: enough for numpy's calls to cost little, and little enough for the caches."""


class Run(NamedTuple):
    """Znodes that follow each other in one piece of a snapshot: all but the root, whose path is empty."""

    data: bytes
    base: int
    """Where `data[0]` stands in the plain file."""
    starts: Sequence[int]
    """Where each path is in `data`."""
    path_ends: Sequence[int]
    """Where each path ends, and the length of the znode's data stands."""
    data_ends: Sequence[int]
    """Where each znode's data ends, and its stat starts."""
    is_plain: bool
    """Whether all paths are plain ASCII."""

    @property
    def end(self) -> int:
        """Where the last znode ends."""
        return int(self.data_ends[-1]) + STAT.size


FindRun = Callable[[bytes, int], Run | None]
"""Finds whole znodes from the front of a piece on, which stands at an offset of the file: some or all of
those that `snapshots.znodes_from` would give, and nothing else; None where it finds none."""


def runs_from(window: SummedWindow, find: FindRun) -> Iterator[Run | RawZnode]:
    """Up to the terminator, which is passed. Raises as `znodes_from` does.

    What `find` does not take comes znode by znode, and so does a run in which a path is not plain.
    """
    one_by_one = znodes_from(window)
    while True:
        window.fill(PIECE_BYTES)
        run = find(window.data[window.at :], window.offset)
        if run is not None:
            window.at += run.end
            if run.is_plain:
                yield run
            else:
                yield from znodes_of(run)
            continue
        znode = next(one_by_one, None)
        if znode is None:
            return
        yield znode


def znodes_of(run: Run) -> Iterator[RawZnode]:
    """The same one by one."""
    data, int_of, stat_of = run.data, INT.unpack_from, STAT.unpack_from
    for start, path_end, data_end in zip(run.starts, run.path_ends, run.data_ends, strict=True):
        (size,) = int_of(data, path_end)
        value = None if size < 0 else data[path_end + INT.size : data_end]
        yield RawZnode(data[start:path_end], value, stat_of(data, data_end), run.base + int(start))
