"""Znodes of a snapshot as columns in plain lists.

Sources: FileSnap.java and DataTree.serialize of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from struct import Struct
from typing import Any, Final

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.batches import Batch, Same
from zkgroup.zkfiles.compression import FileBytes
from zkgroup.zkfiles.jute import JuteError, text_of
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.log_lists import parent_of
from zkgroup.zkfiles.schemas import Column
from zkgroup.zkfiles.snapshots import RawZnode, SnapshotReader

BATCH_BYTES: Final = 4 << 20
"""What the data of a batch may come to, and one znode more."""

_STAT: Final = (
    "acl", "czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "pzxid",
)  # fmt: skip
_SLASH: Final = b"\0\0\0\1/"
_SEAL_BYTES: Final = 13
_DIGEST: Final = Struct(">qiq")
_LAST_ZXID: Final = Struct(">q")


def batches(
    reader: SnapshotReader, columns: tuple[Column, ...], path_prefix: str | None, rows: int
) -> Iterator[Batch]:
    """The znodes whose path begins with a prefix, by so many at most."""
    prefix = (path_prefix or "").encode()
    names = {column.name for column in columns}
    end_zxid = _end_zxid(reader) if "end_zxid" in names else None
    with closing(_groups(reader, rows, prefix)) as groups:
        for znodes in groups:
            of_file = {"snap_zxid": reader.zxid, "end_zxid": end_zxid, "file": str(reader.path)}
            lists = _lists(reader, znodes, names)
            lists |= {name: Same(value) for name, value in of_file.items() if name in names}
            yield Batch(columns, len(znodes), lists)
    if end_zxid is not None and end_zxid != reader.end.end_zxid:
        raise DamagedFileError(
            str(reader.path),
            0,
            f"the end zxid {end_zxid:#x}",
            f"{reader.end.end_zxid or 0:#x}: it was replaced",
        )


def _groups(reader: SnapshotReader, rows: int, prefix: bytes) -> Generator[list[RawZnode]]:
    """Damage is raised after the znodes before it."""
    group: list[RawZnode] = []
    size = 0
    znodes = reader.raw_znodes()
    try:
        for znode in znodes:
            if prefix and not (znode.path or b"/").startswith(prefix):
                continue
            group.append(znode)
            if znode.data is not None:
                size += len(znode.data)
            if len(group) >= rows or size > BATCH_BYTES:
                yield group
                group, size = [], 0
    except DamagedFileError:
        if group:
            yield group
        raise
    if group:
        yield group


def _lists(
    reader: SnapshotReader, znodes: list[RawZnode], names: set[str]
) -> dict[str, Sequence[Any] | Same]:
    raw_paths, data, stats, offsets = zip(*znodes, strict=True)
    lists: dict[str, Sequence[Any]] = dict(zip(_STAT, map(list, zip(*stats, strict=True)), strict=True))
    lists["acl"] = [reader.acls.get(number) for number in lists["acl"]]
    paths = _texts(reader, raw_paths, offsets)
    lists["path"], lists["data"] = paths, list(data)
    if "parent" in names:
        lists["parent"] = [parent_of(path) for path in paths]
    if "name" in names:
        lists["name"] = [path[path.rfind("/") + 1 :] for path in paths]
    if "depth" in names:
        lists["depth"] = [path.count("/") if path != "/" else 0 for path in paths]
    if "kind" in names:
        kinds = {owner: lifetime_of(owner) or "persistent" for owner in set(lists["owner"])}
        lists["kind"] = [kinds[owner] for owner in lists["owner"]]
    if "data_length" in names:
        lists["data_length"] = [len(value) if value else 0 for value in data]
    return {name: lists[name] for name in lists if name in names}


def _texts(reader: SnapshotReader, raw_paths: Sequence[bytes], offsets: Sequence[int]) -> list[str]:
    try:
        paths = [path.decode() for path in raw_paths]
    except UnicodeDecodeError:
        paths = [_text(reader, *each) for each in zip(raw_paths, offsets, strict=True)]
    if "" in paths:  # the root
        paths = [path or "/" for path in paths]
    return paths


def _text(reader: SnapshotReader, path: bytes, offset: int) -> str:
    try:
        return text_of(path)
    except JuteError as error:
        expected, found = f"a path in {error.expected}", repr(path[:40])
        raise DamagedFileError(str(reader.path), offset, expected, found) from error


def _end_zxid(reader: SnapshotReader) -> int | None:
    """What the end of the file says; None too where it is damaged, for then the znodes before it are told.

    A plain file has it at a known distance from its end, if all that has to be between is there.
    """
    with FileBytes(reader.path) as file:
        if file.compression is None:
            file.skip(max(file.size - _TAIL_BYTES, 0))
            told = _told(file.read(_TAIL_BYTES))
            if told is not None:
                return told
    try:
        return reader.end.end_zxid
    except DamagedFileError:
        return None


def _told(tail: bytes) -> int | None:
    """The zxid behind the first seal, in a file of 3.9 with all sections; None for others."""
    at = len(tail) - _TAIL_BYTES
    seals = (at + 5, at + 5 + _SEAL_BYTES + _DIGEST.size, len(tail) - _SEAL_BYTES)
    if at < 0 or not tail.startswith(_SLASH, at):
        return None
    if any(tail[seal : seal + 4] != bytes(4) or not tail.startswith(_SLASH, seal + 8) for seal in seals):
        return None
    digest_zxid, version, _ = _DIGEST.unpack_from(tail, seals[0] + _SEAL_BYTES)
    (last_zxid,) = _LAST_ZXID.unpack_from(tail, seals[1] + _SEAL_BYTES)
    return max(digest_zxid, last_zxid) if version >= 2 else None


_TAIL_BYTES: Final = len(_SLASH) + 3 * _SEAL_BYTES + _DIGEST.size + _LAST_ZXID.size
