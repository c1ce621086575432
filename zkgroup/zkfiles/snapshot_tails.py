"""What the last bytes of a snapshot say of its end, without the znodes before them.

Only a hint: the seals are found by where they have to be, and their checksums not compared. It says which
snapshots are worth reading; who reads one is told by `SnapshotReader.end`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zkgroup.zkfiles.compression import FileBytes
from zkgroup.zkfiles.jute import LONG
from zkgroup.zkfiles.operations import DIGEST
from zkgroup.zkfiles.snapshots import SnapshotEnd

_SLASH: Final = b"\0\0\0\1/"
_CHECKSUM_FRONT: Final = bytes(4)
"""An Adler-32 stands in eight bytes."""
_SEAL_BYTES: Final = LONG.size + len(_SLASH)
_DIGEST_BYTES: Final = LONG.size + DIGEST.size
_LAYOUTS: Final = ((_DIGEST_BYTES, LONG.size), (_DIGEST_BYTES,), (LONG.size,), ())
"""The sections behind the first seal, of 3.9, 3.6, 3.9 with digests off, and before. The longest comes first:
a last zxid can look like the end of the znodes."""
_TAIL_BYTES: Final = len(_SLASH) + 3 * _SEAL_BYTES + _DIGEST_BYTES + LONG.size


def glimpsed_end(path: Path) -> SnapshotEnd | None:
    """The zxids behind the znodes, by how the end of the file looks; None for a packed file or another end.

    Raises NotZooKeeperFileError where the file may not be read, DamagedFileError where the disk fails.
    """
    with FileBytes(path) as file:
        if file.compression is not None:
            return None
        file.skip(max(file.size - _TAIL_BYTES, 0))
        tail = file.read(_TAIL_BYTES)
    return next((end for layout in _LAYOUTS if (end := _read_as(tail, layout)) is not None), None)


def _read_as(tail: bytes, layout: tuple[int, ...]) -> SnapshotEnd | None:
    at = len(tail) - len(_SLASH) - _SEAL_BYTES - sum(_SEAL_BYTES + size for size in layout)
    if at < 0 or not tail.startswith(_SLASH, at):
        return None
    at += len(_SLASH)
    zxids: dict[int, int] = {}
    for size in layout:
        if not _is_seal(tail, at):
            return None
        (zxids[size],) = LONG.unpack_from(tail, at + _SEAL_BYTES)
        at += _SEAL_BYTES + size
    if not _is_seal(tail, at):
        return None
    return SnapshotEnd(digest_zxid=zxids.get(_DIGEST_BYTES), last_zxid=zxids.get(LONG.size))


def _is_seal(tail: bytes, at: int) -> bool:
    return tail.startswith(_CHECKSUM_FRONT, at) and tail.startswith(_SLASH, at + LONG.size)
