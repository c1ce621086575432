"""Reads a snapshot znode by znode, and checks its seals.

Sources: FileSnap.java, SnapStream.java, DataTree.serialize and ReferenceCountedACLCache of ZooKeeper 3.4 to
3.9. A snapshot is taken while writes go on: it has all that was applied when it began, and some changes that
came until it ended. Servers from 3.6 on write the zxid of its end.
The end alone, without the znodes, is a hint: seals are found by their places, and
their checksums not compared. It shows which snapshots are worth reading.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from zlib import adler32

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles import files
from zkgroup.zkfiles.exports import ExportHeader
from zkgroup.zkfiles.jute import DIGEST, INT, LONG, OPEN_ACL, JuteError, Oversized, acl_at, text_at, text_of
from zkgroup.zkfiles.logs import FileHealth, oversized_notes
from zkgroup.zkfiles.records import Acl, StoredStat, StoredZnode, TreeDigest

_SEAL: Final = rb"\0{4}.{4}\0{3}\x01/"
"""An Adler-32 in eight bytes, and the text `/`."""
_END: Final = re.compile(
    rb"\0{3}\x01/" + _SEAL + rb"(?:(.{8}).{12}" + _SEAL + rb")?(?:(.{8})" + _SEAL + rb")?\Z", re.DOTALL
)
"""The terminator and the sections behind the first seal, of 3.9, 3.6, 3.9 without digests, or before. The
longest is found first: a last zxid can look like the end of the znodes."""


class TreeSnapshot(NamedTuple):
    """What is known of a tree snapshot beside its znodes."""

    path: Path
    zxid: int
    """Everything that is known in it is at least as new."""
    end_zxid: int
    """Nothing that is known in it is newer."""
    time_ms: int
    """When it was walked; of a server's snapshot the newest ctime or mtime in it, a lower bound."""
    detail: str = ""
    """The reason why not all that is known in it is of `end_zxid`; empty where it is."""
    header: ExportHeader | None = None
    """That of an export."""
    sessions: Mapping[int, int] | None = None
    """Timeouts in ms of the sessions that lived, of a server's snapshot."""
    unreadable: frozenset[str] = frozenset()
    """Paths that it lacks with everything below, for they could not be read."""
    unknown: frozenset[str] = frozenset()
    """These, and paths that it has as they were later, or lacks because they went later."""
    number: int = 0
    """Its place in a series."""

    @property
    def is_exact(self) -> bool:
        """True if all that is known in it is of `end_zxid`."""
        return not self.detail


class SnapshotEnd(NamedTuple):
    """The sections behind the znodes; all None before 3.6."""

    digest_zxid: int | None = None
    digest: TreeDigest | None = None
    """The digest of the tree at `digest_zxid`, to which a replay up to there has to lead."""
    last_zxid: int | None = None
    """The last zxid applied, from servers of 3.9."""

    def window_end(self, began: int | None) -> int | None:
        """The last zxid of which a snapshot that began at one can have changes; None if it is not known.

        A server writes the digest of the last transaction that it applied since its start. If it applied
        none, it writes that of zxid 0, which is of use only in its very first snapshot; a new leader, whose
        snapshot begins at the zxid of no transaction, writes that of an earlier epoch, and nothing came
        between (DataTree.serializeZxidDigest and deserializeZxidDigest@3.9.4).
        """
        known = [zxid for zxid in (self.digest_zxid, self.last_zxid) if zxid is not None]
        has_no_transaction = self.last_zxid is None and self.digest_zxid == 0
        if not known or (has_no_transaction and began != 0):
            return None
        return max(began or 0, *known)


def likely_end(path: Path) -> SnapshotEnd | None:
    """The zxids behind the znodes, from the last bytes of the file; None for a packed file or another end.

    Raises NotZooKeeperFileError where the file may not be read, DamagedFileError where the disk fails.
    """
    with files.FileBytes(path) as file:
        if file.compression is not None:
            return None
        file.skip(max(file.size - _LEAST_BYTES, 0))
        found = _END.search(file.read(_LEAST_BYTES))
    if found is None:
        return None
    digest_zxid, last_zxid = (
        None if each is None else int.from_bytes(each, "big", signed=True) for each in found.groups()
    )
    return SnapshotEnd(digest_zxid=digest_zxid, last_zxid=last_zxid)


T = TypeVar("T")

MAGIC: Final = b"ZKSN"
OPEN_ACL_ID: Final = -1
"""The number of the ACL that is in no table."""

_SESSION: Final = struct.Struct(">qi")
STAT: Final = struct.Struct(">qqqqqiiiqq")
"""The ACL's number, then StatPersisted."""
_TERMINATOR: Final = b"/"
_LAST_BYTES: Final = 2 * LONG.size + INT.size + len(_TERMINATOR)
"""The bytes of a last zxid with its seal."""
_LEAST_BYTES: Final = 128
"""A number of bytes that the sections behind the znodes do not reach."""
_TABLE_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of sessions, and of ACLs, as they are kept in memory: more than two million of
either."""


class RawZnode(NamedTuple):
    """A znode as it stands in the file."""

    path: bytes
    """The path in UTF-8; the root's is empty."""
    data: bytes | None
    stat: tuple[int, ...]
    """The ACL's number, then the fields of StoredStat."""
    offset: int
    """The place of the path in the plain file."""


class SnapshotReader:
    """One snapshot, read from the front each time; one buffer of it is in memory, and sessions and ACLs.

    `sessions`, `acls` and `end` read as far as they need, unless that was read already.
    """

    def __init__(self, path: Path, zxid: int) -> None:
        self.path = path
        self.zxid = zxid
        """The last zxid applied when it began, from the file's name."""
        self._tables: tuple[dict[int, int], dict[int, Acl]] | None = None
        self._end: SnapshotEnd | None = None

    @property
    def sessions(self) -> dict[int, int]:
        """The timeouts in milliseconds by session id."""
        return self._read_tables()[0]

    @property
    def acls(self) -> dict[int, Acl]:
        """The ACLs by their numbers in the file, with the open ACL, -1, which the file leaves out."""
        return self._read_tables()[1]

    @property
    def end(self) -> SnapshotEnd:
        """The sections behind the znodes. Raises DamagedFileError."""
        if self._end is None:
            for _ in self.read(znodes_from):
                pass
        assert self._end is not None
        return self._end

    @property
    def end_zxid(self) -> int | None:
        """The zxid from which on a replay is exact; None where the file lacks it. Raises DamagedFileError."""
        return self.end.window_end(self.zxid)

    def znodes(self) -> Iterator[StoredZnode]:
        """Yields every znode, a parent before its children; the seals are checked behind the last one.

        The znodes are reliable only when the iteration has ended. Raises DamagedFileError, and
        NotZooKeeperFileError where the file is no snapshot.
        """
        for path, data, (acl_id, *stat), offset in self.read(znodes_from):
            try:
                name = text_of(path) or "/"
            except JuteError as error:
                raise self.no_text(path, offset, error) from error
            yield StoredZnode(name, data, self.acls.get(acl_id), StoredStat(*stat))

    def no_text(self, path: bytes, offset: int, error: JuteError) -> DamagedFileError:
        """The error for a path that is no text."""
        return DamagedFileError(str(self.path), offset, f"a path in {error.expected}", repr(path[:40]))

    def read(self, znodes_of: Callable[[SummedWindow], Iterator[T]]) -> Generator[T]:
        """Yields the items that `znodes_of` makes from the bytes from the first znode on.

        `znodes_of` leaves the window behind the terminator. Raises its errors, and those of `znodes`.
        """
        with SummedWindow(self.path) as window:
            self._tables = _tables_from(window)
            yield from znodes_of(window)
            self._end = _end_from(window)

    def _read_tables(self) -> tuple[dict[int, int], dict[int, Acl]]:
        if self._tables is None:
            with SummedWindow(self.path) as window:
                self._tables = _tables_from(window)
        return self._tables


class SummedWindow(files.Window):
    """A window over a snapshot with the Adler-32 of everything before `at`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._sum = 1
        self._summed = 0

    @property
    def checksum(self) -> int:
        """The Adler-32 of all bytes before `at`."""
        self._sum = adler32(memoryview(self.data)[self._summed : self.at], self._sum)
        self._summed = self.at
        return self._sum

    def _leave(self) -> None:
        _ = self.checksum
        self._summed = 0

    def take(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        """Returns the next numbers. Raises DamagedFileError where the file ends before."""
        self.require(layout.size, what)
        numbers = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return numbers

    def require(self, count: int, what: str) -> None:
        """Raises DamagedFileError unless so many bytes follow."""
        if not self.fits(self.offset + count) or not self.ensure(count):
            raise self.damage(what, "the end of the file: it is being written, or was cut off")


def open_snapshot(path: Path, zxid: int | None = None) -> SnapshotReader:
    """A reader of a snapshot, which has read nothing yet.

    `zxid` is for files without one in their name. Raises NotZooKeeperFileError where there is neither.
    """
    if zxid is None:
        named = files.ServerFile.of(path)
        if named is None or named.kind != files.SNAPSHOT:
            raise NotZooKeeperFileError(str(path), "a name like snapshot.ZXID", path.name)
        zxid = named.zxid
    return SnapshotReader(path, zxid)


def inspect_snapshot(path: Path) -> FileHealth:
    """The health of a snapshot: every length, seal and path is checked.

    Raises NotZooKeeperFileError where the file cannot be read, or neither name nor front is a snapshot's.
    """
    files.FileBytes(path).close()  # raises for a file that may not be read, and for a link
    named = files.ServerFile.of(path)
    named = named if named is not None and named.kind == files.SNAPSHOT else None
    first = named.zxid if named is not None else None
    reader = SnapshotReader(path, first or 0)
    records = unknown_acls = 0
    latest = first
    oversized: list[Oversized] = []
    damage: DamagedFileError | NotZooKeeperFileError | None = None
    try:
        for znode in reader.znodes():
            records += 1
            unknown_acls += znode.acl is None
            latest = max(latest or 0, znode.stat.czxid, znode.stat.mzxid, znode.stat.pzxid)
            size = max(len(znode.data or b""), len(znode.path))
            if size > files.MAX_LOADED_BYTES:
                oversized.append(Oversized(znode.stat.mzxid, znode.stat.mtime, size))
    except DamagedFileError as error:
        damage = error
    except NotZooKeeperFileError as error:
        if named is None:
            raise
        damage = error
    ended = None if damage else reader.end.window_end(first)
    notes = []
    if damage:
        notes.append(str(damage).removeprefix(str(path)).lstrip(",: "))
    elif ended is None:
        later = "" if first is None else f"it may have some changes after {first:#x}: "
        notes.append(f"{later}it does not say at which zxid it was complete")
    elif first is not None and ended > first:
        notes.append(f"taken while writes went on, from {first:#x} to {ended:#x}")
    notes += oversized_notes(oversized)
    if unknown_acls:
        notes.append(f"{unknown_acls} znodes whose ACL the file does not have (ZOOKEEPER-4689)")
    return FileHealth(
        path=path,
        kind=files.SNAPSHOT,
        first_zxid=first,
        last_zxid=None if damage else latest if ended is None else ended,
        records=records,
        is_healthy=damage is None,
        good_until_zxid=None if damage else first,
        is_exact=damage is None and first is not None and ended == first,
        detail="; ".join(notes),
        oversized=tuple(oversized),
    )


def _tables_from(window: SummedWindow) -> tuple[dict[int, int], dict[int, Acl]]:
    is_there = window.ensure(files.FILE_HEADER.size)
    front = window.data[: files.FILE_HEADER.size]
    if not is_there and MAGIC.startswith(front[: len(MAGIC)]):
        raise window.damage("a snapshot", "the end of the file: it is being written, or was cut off")
    window.pass_header("a snapshot", MAGIC)
    sessions: dict[int, int] = {}
    for _ in range(_count(window, "sessions", _SESSION.size)):
        session, timeout_ms = window.take(_SESSION, "a session")
        sessions[session] = timeout_ms
    acls: dict[int, Acl] = {OPEN_ACL_ID: OPEN_ACL}
    start = window.offset
    for _ in range(_count(window, "ACLs", LONG.size + INT.size)):
        (number,) = window.take(LONG, "an ACL")
        acls[number] = _acl_from(window)
        if window.offset - start > _TABLE_BYTES:
            raise window.damage(f"a table of at most {_TABLE_BYTES} bytes", "more")
    return sessions, acls


def _count(window: SummedWindow, what: str, smallest: int) -> int:
    (count,) = window.take(INT, f"the number of {what}")
    offset = window.offset
    if count < 0 or count * smallest > _TABLE_BYTES or not window.fits(offset + count * smallest):
        raise window.damage(f"a number of {what} that fits", str(count), offset - INT.size)
    return count


def _acl_from(window: SummedWindow) -> Acl:
    """An ACL of any length; more of the file is read until it fits, in steps that double."""
    size = INT.size
    while True:
        is_all = not window.ensure(size)
        try:
            acl, at = acl_at(window.data, window.at, len(window.data))
        except JuteError as error:
            if is_all or size > _TABLE_BYTES:
                offset = window.base + error.offset
                raise window.damage(error.expected, error.found, offset) from error
            size = 2 * max(size, len(window.data) - window.at)
        else:
            window.at = at
            return acl or ()


def znodes_from(window: SummedWindow) -> Iterator[RawZnode]:
    """Yields znodes up to the terminator, and passes that. The caller may move the window between two."""
    int_of, stat_of = INT.unpack_from, STAT.unpack_from
    number, behind = INT.size, INT.size + STAT.size
    root_at = None
    while True:
        if len(window.data) - window.at < number:
            window.require(number, "a znode")
        (size,) = int_of(window.data, window.at)
        if not 0 <= size <= files.MAX_RECORD_BYTES:
            raise window.damage(f"a length of at most {files.MAX_RECORD_BYTES}", str(size))
        if len(window.data) - window.at < number + size + number:
            window.require(number + size, "a path")
        start = window.at + number
        path = window.data[start : start + size]
        if path == _TERMINATOR:
            window.at = start + size
            return
        if size and path[0] != _TERMINATOR[0]:
            raise window.damage("a path that starts with /", repr(path[:40]), window.offset + number)
        offset = window.base + start
        if not size:
            if root_at is not None:  # pages of zeros look like that
                raise window.damage("a path", f"the root again, which is at byte {root_at}")
            root_at = offset
        window.at = start + size
        if len(window.data) - window.at < number:
            window.require(number, "a znode's data")
        (size,) = int_of(window.data, window.at)
        if not -1 <= size <= files.MAX_RECORD_BYTES:
            raise window.damage(f"a length of at most {files.MAX_RECORD_BYTES}", str(size))
        length = max(size, 0)
        if len(window.data) - window.at < length + behind:
            window.require(length + behind, "a znode")
        start = window.at + number
        data = None if size < 0 else window.data[start : start + length]
        stat = stat_of(window.data, start + length)
        window.at = start + length + STAT.size
        yield RawZnode(path, data, stat, offset)


def _end_from(window: SummedWindow) -> SnapshotEnd:
    """The sections behind the znodes; the size of the rest shows which the file has."""
    _check_seal(window)
    digest_zxid = digest = last_zxid = None
    left = _left(window)
    if left and left != _LAST_BYTES:
        (digest_zxid,) = window.take(LONG, "the zxid of a digest")
        digest = _digest_from(window)
        _check_seal(window)
        left = _left(window)
    if left:
        (last_zxid,) = window.take(LONG, "the last zxid")
        _check_seal(window)
    if _left(window):
        raise window.damage("the end of the file", f"at least {_left(window)} bytes more")
    return SnapshotEnd(digest_zxid, digest, last_zxid)


def _left(window: SummedWindow) -> int:
    """The number of bytes to the end, exact where it is less than _LEAST_BYTES."""
    window.ensure(_LEAST_BYTES)
    return len(window.data) - window.at


def _digest_from(window: SummedWindow) -> TreeDigest:
    """The digest; the first builds of 3.6 wrote it as hex text (ZxidDigest.deserialize, version below 2)."""
    window.require(INT.size, "a digest")
    (version,) = INT.unpack_from(window.data, window.at)
    if version >= 2:
        return TreeDigest(*window.take(DIGEST, "a digest"))
    try:
        text, at = text_at(window.data, window.at + INT.size, len(window.data))
        value = int(text, 16) % (1 << 64)
    except (JuteError, ValueError) as error:
        raise window.damage("a digest in hex", str(error)) from error
    window.at = at
    return TreeDigest(version, value)


def _check_seal(window: SummedWindow) -> None:
    expected = window.checksum
    offset = window.offset
    (found,) = window.take(LONG, "a seal")
    if found != expected:
        raise window.damage(f"the checksum {expected:#010x}", f"{found:#x}", offset)
    window.require(INT.size + len(_TERMINATOR), "the end of a seal")
    front = INT.pack(len(_TERMINATOR)) + _TERMINATOR
    if not window.data.startswith(front, window.at):
        raise window.damage("the end of a seal", repr(window.data[window.at : window.at + len(front)]))
    window.at += len(front)
