"""What stands behind the znodes of a snapshot, and a glimpse of it without reading them.

The glimpse is a hint: the seals are found by where they have to be, and their checksums not compared. It says
which snapshots are worth reading; who reads one is told by `SnapshotReader.end`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.zkfiles.compression import FileBytes
from zkgroup.zkfiles.jute import LONG
from zkgroup.zkfiles.operations import DIGEST
from zkgroup.zkfiles.records import TreeDigest

_SLASH: Final = b"\0\0\0\1/"
_CHECKSUM_FRONT: Final = bytes(4)
"""An Adler-32 stands in eight bytes."""
SEAL_BYTES: Final = LONG.size + len(_SLASH)
"""An Adler-32 in eight bytes, and the text `/`."""
_DIGEST_BYTES: Final = LONG.size + DIGEST.size
_LAYOUTS: Final = ((_DIGEST_BYTES, LONG.size), (_DIGEST_BYTES,), (LONG.size,), ())
"""The sections behind the first seal, of 3.9, 3.6, 3.9 with digests off, and before. The longest comes first:
a last zxid can look like the end of the znodes."""
_TAIL_BYTES: Final = len(_SLASH) + 3 * SEAL_BYTES + _DIGEST_BYTES + LONG.size


class SnapshotEnd(NamedTuple):
    """What stands behind the znodes; all None before 3.6."""

    digest_zxid: int | None = None
    digest: TreeDigest | None = None
    """Of the tree at `digest_zxid`, which is what a replay up to there has to give."""
    last_zxid: int | None = None
    """The last one applied, by servers of 3.9."""

    def window_end(self, began: int | None) -> int | None:
        """The last zxid of which a dump that began at another can hold something; None where it is not told.

        A server writes the digest of the last transaction that it applied since it was started. Where it
        applied none it writes that of zxid 0, which tells nothing but in its very first snapshot; a new
        leader, whose dump begins at no transaction's zxid, writes that of an epoch before, and nothing came
        in meanwhile (DataTree.serializeZxidDigest and deserializeZxidDigest@3.9.4).
        """
        known = [zxid for zxid in (self.digest_zxid, self.last_zxid) if zxid is not None]
        has_no_transaction = self.last_zxid is None and self.digest_zxid == 0
        if not known or (has_no_transaction and began != 0):
            return None
        return max(began or 0, *known)


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
    at = len(tail) - len(_SLASH) - SEAL_BYTES - sum(SEAL_BYTES + size for size in layout)
    if at < 0 or not tail.startswith(_SLASH, at):
        return None
    at += len(_SLASH)
    zxids: dict[int, int] = {}
    for size in layout:
        if not _is_seal(tail, at):
            return None
        (zxids[size],) = LONG.unpack_from(tail, at + SEAL_BYTES)
        at += SEAL_BYTES + size
    if not _is_seal(tail, at):
        return None
    return SnapshotEnd(digest_zxid=zxids.get(_DIGEST_BYTES), last_zxid=zxids.get(LONG.size))


def _is_seal(tail: bytes, at: int) -> bool:
    return tail.startswith(_CHECKSUM_FRONT, at) and tail.startswith(_SLASH, at + LONG.size)
