"""The records of a server alone for a replay, many at a time, by the compiled kernel.

What the kernel refuses, or does not decode, is given record by record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.frames import FRAME, ZXID, ZXID_AT, LogChunk, Oversized
from zkgroup.zkfiles.health import SeenRecords
from zkgroup.zkfiles.jute import JuteError
from zkgroup.zkfiles.log_lists import Wanted
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.operations import transaction_of
from zkgroup.zkfiles.records import Transaction
from zkgroup.zkfiles.schemas import LOG, select
from zkgroup.zkfiles.servers import Server
from zkgroup.zkfiles.zxids import follows, hole_between

if TYPE_CHECKING:
    from zkgroup.zkfiles.compiled_replay import CompiledPaths
    from zkgroup.zkfiles.stretches import Stretch

COLUMNS: Final = (
    *("zxid", "sub", "session", "time", "type", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "parent_cversion", "acl", "applied", "digest"),
)
"""What a stretch is made of."""
_STRETCH_ROWS: Final = 1 << 18
"""That many are given at a time: a znode that changes is looked up and written back once for all of them."""


class Sees(Protocol):
    """Takes all records in order, some of them many at a time."""

    def see(self, transaction: Transaction) -> None: ...

    def takes_stretch(self, first: int, last: int) -> bool:
        """Whether `see_stretch` is to be tried for records from one zxid to another."""
        ...

    def see_stretch(self, rows: Stretch, paths: CompiledPaths) -> bool:
        """Records that follow each other. False, with nothing done, where `see` has to judge."""
        ...

    @property
    def looks_at_tree(self) -> bool:
        """Whether anybody looks at the znodes of the tree when all records were given."""
        ...


class NotPlainError(Exception):
    """The exact reader has to read the logs: for damage, disorder or holes, or without the kernel."""


def replay(server: Server, taker: Sees, after: int = 0, to_zxid: int | None = None) -> None:
    """Gives all records in order, or those behind one zxid and up to another.

    Raises NotPlainError, after some were given: also where the last one is not `to_zxid`, though the logs go
    further.
    """
    try:
        from zkgroup.zkfiles.compiled_replay import CompiledPaths
    except ImportError as error:
        raise NotPlainError(str(error)) from error
    logs = server.files.logs_within(after + 1, None if to_zxid is None else to_zxid + 1)
    stretches = _Stretches(taker, CompiledPaths(), after)
    seen: dict[Path, SeenRecords] = {}
    try:
        with closing(stretches):
            for log in logs:
                oversized = server.oversized_in(log.path)
                seen[log.path] = _added(stretches, log.path, after + 1 if after else 0, to_zxid, oversized)
            stretches.give()
    except (DamagedFileError, NotZooKeeperFileError, JuteError) as error:
        raise NotPlainError(str(error)) from error
    if to_zxid is not None and stretches.last == to_zxid:
        return
    if not logs or stretches.last != server.last_logged(logs[-1]):
        raise NotPlainError("a damage, or records that were written meanwhile")
    if not after and to_zxid is None:
        server.seen_logs |= seen


def _added(
    stretches: _Stretches, path: Path, from_zxid: int, to_zxid: int | None, oversized: dict[int, Oversized]
) -> SeenRecords:
    """Adds the records of a log. What was seen of them is that of the whole log only if all are wanted."""
    from zkgroup.zkfiles import compiled

    reader = LogReader(path, find=compiled.find, piece_bytes=compiled.PIECE_BYTES, oversized=oversized)
    first, last, records = None, None, 0
    for piece in _pieces(reader, from_zxid, to_zxid):
        stretches.add(piece)
        if piece.until > piece.first:
            first = piece.zxid_of(piece.first) if first is None else first
            last = piece.zxid_of(piece.until - 1)
            records += piece.until - piece.first
    return SeenRecords(first, last, records, last, [], [], reader.end, tuple(reader.oversized.values()))


class _ChunkRecords(NamedTuple):
    """Records of a chunk."""

    chunk: LogChunk
    first: int
    until: int
    wanted: Wanted
    batch: Batch | None
    """Their columns; None where the kernel does not decode them."""

    def zxid_of(self, number: int) -> int:
        """That of one record, by its number in the chunk."""
        (zxid,) = ZXID.unpack_from(self.chunk.data, int(self.chunk.starts[number]) + ZXID_AT)
        return int(zxid)

    def transactions(self) -> Iterator[Transaction]:
        """Those of the zxids that are wanted. Raises JuteError."""
        data, base, starts, ends = self.chunk
        for number in range(self.first, self.until):
            start = int(starts[number])
            transaction = transaction_of(data, start + FRAME.size, int(ends[number]), base + start)
            if self.wanted.from_zxid <= transaction.zxid <= self.wanted.to_zxid:
                yield transaction


def _pieces(reader: LogReader, from_zxid: int, to_zxid: int | None) -> Iterator[_ChunkRecords]:
    """The records of a log, up to the first one behind `to_zxid`."""
    from zkgroup.zkfiles import compiled

    high = (1 << 63) - 1 if to_zxid is None else to_zxid
    wanted = Wanted(select(LOG, COLUMNS), str(reader.path), from_zxid, high, None, ROWS_PER_BATCH)
    with closing(reader.chunks()) as chunks:
        for chunk in chunks:
            first = 0
            while first < len(chunk.starts):
                taken = compiled.take(chunk, first, wanted)
                if taken is None:
                    yield _ChunkRecords(chunk, first, len(chunk.starts), wanted, None)
                    break
                yield _ChunkRecords(chunk, first, taken.until, wanted, taken.batch)
                if taken.is_past:
                    return
                first = taken.until


class _Stretches:
    """Brings pieces together, and gives as many at a time as the taker wants."""

    def __init__(self, taker: Sees, paths: CompiledPaths, after: int) -> None:
        self.last = after
        """The last zxid that was given, or the one behind which they begin."""
        self._taker = taker
        self._paths = paths
        self._pieces: list[_ChunkRecords] = []
        self._rows = 0

    def add(self, piece: _ChunkRecords) -> None:
        self._pieces.append(piece)
        self._rows += 0 if piece.batch is None else piece.batch.rows
        if self._rows >= _STRETCH_ROWS or piece.batch is None:
            self.give()

    def give(self) -> None:
        """All that was added."""
        pieces, self._pieces, self._rows = self._pieces, [], 0
        if pieces:
            self._give(pieces)

    def close(self) -> None:
        """Brings the taker's tree to what was given in columns, if anybody looks at it."""
        if self._taker.looks_at_tree:
            self._paths.settle()

    def _give(self, pieces: Sequence[_ChunkRecords]) -> None:
        """Where all are refused, each half is tried; those of one piece are given record by record."""
        if self._is_taken(pieces):
            return
        if len(pieces) == 1:
            self._give_one_by_one(pieces[0])
            return
        half = len(pieces) // 2
        self._give(pieces[:half])
        self._give(pieces[half:])

    def _give_one_by_one(self, piece: _ChunkRecords) -> None:
        self._paths.settle()
        for transaction in piece.transactions():
            zxid = transaction.zxid
            if self.last and (zxid <= self.last or hole_between(self.last, zxid) is not None):
                raise NotPlainError(f"zxid {zxid:#x} behind {self.last:#x}")
            self._taker.see(transaction)
            self.last = zxid

    def _is_taken(self, pieces: Sequence[_ChunkRecords]) -> bool:
        batches = [piece.batch for piece in pieces if piece.batch is not None]
        if len(batches) < len(pieces):
            return False
        first, last = batches[0]["zxid"][0], batches[-1]["zxid"][-1]
        if (self.last and not follows(first, self.last)) or not self._taker.takes_stretch(first, last):
            return False
        from zkgroup.zkfiles.stretches import OddRowsError, stretch_of

        try:
            rows = stretch_of(batches, self._paths.codes_of, self._paths.data_of)
        except OddRowsError:
            return False
        if not rows.is_without_holes or not self._taker.see_stretch(rows, self._paths):
            return False
        self.last = last
        return True
