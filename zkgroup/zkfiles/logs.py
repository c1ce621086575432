"""Reads a transaction log, whole or from an offset on."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.compression import PIECE_BYTES, FileBytes, Window
from zkgroup.zkfiles.frames import FRAME, Damage, Frames, LogChunk, Oversized, RecordsEnd
from zkgroup.zkfiles.jute import JuteError
from zkgroup.zkfiles.operations import transaction_of
from zkgroup.zkfiles.records import Transaction

MAGIC: Final = b"ZKLG"
FORMAT_VERSION: Final = 2
"""In every release from 3.4 to 3.9; it cannot be used to tell them apart."""
FILE_HEADER: Final = struct.Struct(">4siq")
"""Magic, format version, dbid (always 0)."""
QUICK_BYTES: Final = 1 << 20
"""From that on reading in columns is worth the import of numpy."""


def written_bytes(path: Path) -> int:
    """The size of a file without the room that a server keeps for later; 0 where it cannot be asked."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return min(found.st_size, 512 * found.st_blocks)


class LogReader:
    """One log, read from the front each time; one buffer of it is in memory, and the largest record.

    `from_offset` and `to_offset` (of the plain file) select records by where they start; `from_offset` has to
    be that of one, as a `log_index.HopIndex` gives it. With `resync` damage is noted in `damages` and
    skipped. `oversized` gets the records that are too large for a server by default, by zxid.
    """

    def __init__(
        self,
        path: Path,
        *,
        from_offset: int | None = None,
        to_offset: int | None = None,
        resync: bool = False,
        piece_bytes: int = PIECE_BYTES,
        oversized: dict[int, Oversized] | None = None,
    ) -> None:
        self.path = path
        self._from_offset = from_offset
        self._to_offset = to_offset
        self._resync = resync
        self._piece_bytes = piece_bytes
        self.end: RecordsEnd | None = None
        """Says where the records end, once they were all read."""
        self.damages: list[Damage] = []
        """What was skipped, once it was passed."""
        self.oversized: dict[int, Oversized] = {} if oversized is None else oversized

    def chunks(self) -> Generator[LogChunk]:
        """The records in pieces of the file, not decoded.

        A record that is still being written is left out: `end` says so. Raises DamagedFileError, without
        `resync`, and NotZooKeeperFileError where the file is no transaction log.
        """
        self.end, self.damages = None, []
        with FileBytes(self.path) as file:
            try:
                yield from self._chunks_of(Window(file, piece_bytes=self._piece_bytes))
            except DamagedFileError as error:
                if not self._resync:
                    raise
                # What is packed cannot be read behind a damage of the packing.
                self.damages.append(Damage(error.offset, None, error.expected, error.found))

    def _chunks_of(self, window: Window) -> Generator[LogChunk]:
        if not self._has_header(window):
            return
        if self._from_offset is not None:
            window.jump(max(self._from_offset, FILE_HEADER.size))
        frames = Frames(window, resync=self._resync)
        self.damages = frames.damages
        for chunk in frames.chunks(self._to_offset):
            self.oversized.update((each.zxid, each) for each in chunk.oversized())
            yield chunk
        self.end = frames.end

    def __iter__(self) -> Iterator[Transaction]:
        """The transactions; raises as `chunks` does, and where a record holds what no server writes."""
        for chunk in self.chunks():
            yield from self.transactions_of(chunk)

    def transactions_of(self, chunk: LogChunk) -> Iterator[Transaction]:
        """Those of one chunk."""
        data, base = chunk.data, chunk.base
        for number, (start, end) in enumerate(zip(chunk.starts, chunk.ends, strict=True)):
            try:
                transaction = transaction_of(data, start + FRAME.size, end, base + start)
            except JuteError as error:
                self.unreadable(chunk, number, error)
            else:
                yield transaction

    def unreadable(self, chunk: LogChunk, number: int, error: JuteError) -> None:
        """Notes, with `resync`, a record of a chunk that holds what no server writes; else raises."""
        if not self._resync:
            raise DamagedFileError(
                str(self.path), chunk.base + error.offset, error.expected, error.found
            ) from error
        start, end = chunk.base + chunk.starts[number], chunk.base + chunk.ends[number] + 1
        self.damages.append(Damage(start, end, error.expected, error.found))

    def _has_header(self, window: Window) -> bool:
        """False where the server was stopped before it wrote one."""
        is_there = window.ensure(FILE_HEADER.size)
        front = window.data[: FILE_HEADER.size]
        if not front.strip(b"\0") or (not is_there and MAGIC.startswith(front[: len(MAGIC)])):
            self.end = RecordsEnd(0, is_torn=bool(front))
            return False
        if not is_there or not front.startswith(MAGIC):
            raise window.without_magic("a transaction log", MAGIC, front)
        _, version, _ = FILE_HEADER.unpack(front)
        if version != FORMAT_VERSION:
            raise window.foreign(f"format version {FORMAT_VERSION}", str(version))
        window.at = FILE_HEADER.size
        return True
