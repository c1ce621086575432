"""Znodes of a snapshot as columns: in plain lists, or many at a time where they lie one behind the other.

Sources: FileSnap.java and DataTree.serialize of ZooKeeper 3.4 to 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.batches import Batch, Same
from zkgroup.zkfiles.jute import INT, JuteError, text_of
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.log_lists import parent_of
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.schemas import Column
from zkgroup.zkfiles.snapshots import STAT, RawZnode, SnapshotReader, SummedWindow, glimpsed_end, znodes_from

PIECE_BYTES: Final = 1 << 20
"""Bytes that are read at a time: enough for numpy's calls to cost little, few enough for the caches."""


class Run(NamedTuple):
    """Znodes that follow each other in one piece of a snapshot: all but the root, whose path is empty."""

    data: bytes
    base: int
    """Says where `data[0]` stands in the plain file."""
    starts: Sequence[int]
    """Says where each path is in `data`."""
    path_ends: Sequence[int]
    """Says where each path ends, and the length of the znode's data stands."""
    data_ends: Sequence[int]
    """Says where each znode's data ends, and its stat starts."""
    is_plain: bool
    """True if all paths are plain ASCII."""

    @property
    def end(self) -> int:
        """Returns where the last znode ends."""
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


BATCH_BYTES: Final = 4 << 20
"""Bytes to which the data of a batch may come, and one znode more."""

_STAT: Final = (
    "acl", "czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "pzxid",
)  # fmt: skip


class Faster(NamedTuple):
    """A way to make columns of many znodes at a time."""

    find: FindRun
    batches: Callable[
        [Run, tuple[Column, ...], Mapping[str, Same], Mapping[int, Acl], bytes, int], Iterator[Batch]
    ]
    """As snapshot_arrays.batches."""


def batches(
    reader: SnapshotReader,
    columns: tuple[Column, ...],
    path_prefix: str | None,
    rows: int,
    faster: Faster | None = None,
) -> Iterator[Batch]:
    """The znodes whose path begins with a prefix, by so many at most."""
    prefix = (path_prefix or "").encode()
    names = {column.name for column in columns}
    end_zxid = _end_zxid(reader) if "end_zxid" in names else None
    values = {"snap_zxid": reader.zxid, "end_zxid": end_zxid, "file": str(reader.path)}
    of_file = {name: Same(value) for name, value in values.items() if name in names}
    with closing(_groups(reader, rows, prefix, faster)) as groups:
        for group in groups:
            if isinstance(group, Run):
                assert faster is not None
                yield from faster.batches(group, columns, of_file, reader.acls, prefix, rows)
                continue
            readable, error = _readable(reader, group)
            if readable:
                yield Batch(columns, len(readable), _lists(reader, readable, names) | of_file)
            if error is not None:
                raise error
    if "end_zxid" in names and end_zxid != reader.end_zxid:
        expected, found = (
            "no end zxid" if zxid is None else f"the end zxid {zxid:#x}"
            for zxid in (end_zxid, reader.end_zxid)
        )
        raise DamagedFileError(str(reader.path), 0, expected, f"{found}: it was replaced")


def _groups(
    reader: SnapshotReader, rows: int, prefix: bytes, faster: Faster | None
) -> Generator[list[RawZnode] | Run]:
    """Damage is raised after the znodes before it. Runs are given as they are, with all their znodes."""
    group: list[RawZnode] = []
    size = 0
    znodes: Iterator[RawZnode | Run] = reader.raw_znodes()
    if faster is not None:
        znodes = reader.read(partial(runs_from, find=faster.find))
    try:
        for znode in znodes:
            if isinstance(znode, Run):
                if group:
                    yield group
                    group, size = [], 0
                yield znode
                continue
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


def _readable(
    reader: SnapshotReader, znodes: list[RawZnode]
) -> tuple[list[RawZnode], DamagedFileError | None]:
    """Those before the first whose path is no text, and what is wrong with that one."""
    for number, znode in enumerate(znodes):
        if not znode.path.isascii():
            try:
                text_of(znode.path)
            except JuteError as error:
                expected, found = f"a path in {error.expected}", repr(znode.path[:40])
                damage = DamagedFileError(str(reader.path), znode.offset, expected, found)
                damage.__cause__ = error
                return znodes[:number], damage
    return znodes, None


def _lists(
    reader: SnapshotReader, znodes: list[RawZnode], names: set[str]
) -> dict[str, Sequence[Any] | Same]:
    raw_paths, data, stats, _ = zip(*znodes, strict=True)
    lists: dict[str, Sequence[Any]] = dict(zip(_STAT, map(list, zip(*stats, strict=True)), strict=True))
    lists["acl"] = [reader.acls.get(number) for number in lists["acl"]]
    paths = _texts(raw_paths)
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


def _texts(raw_paths: Sequence[bytes]) -> list[str]:
    try:
        paths = [path.decode() for path in raw_paths]
    except UnicodeDecodeError:
        paths = [text_of(path) for path in raw_paths]
    if "" in paths:  # the root
        paths = [path or "/" for path in paths]
    return paths


def _end_zxid(reader: SnapshotReader) -> int | None:
    """Returns what the end of the file says; None too where it is damaged, for then the znodes before it are
    told.

    The last bytes of a plain file tell, if they look like a dialect's; it is compared behind the znodes.
    """
    told = glimpsed_end(reader.path)
    if told is not None:
        return told.window_end(reader.zxid)
    try:
        return reader.end_zxid
    except DamagedFileError:
        return None
