"""The states of znodes in tree snapshots that follow each other, each kept once. Needs numpy and pyarrow.

A line of an export that the snapshot before had too is not parsed again, and the znodes of a server's
snapshot are compared with those before in columns. Two states of a path are the same where the nine numbers
of the stat and the data are: an ACL never changes without `aversion`.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import ne
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from zkgroup.errors import DamagedFileError
from zkgroup.model.requests import STAT_NAMES
from zkgroup.zkfiles.arrow import SNAPSHOT, Numbers, acls_of, select
from zkgroup.zkfiles.exports import ExportHeader, ExportReader, read_lines, znode_of
from zkgroup.zkfiles.records import Acl, AclEntry, StoredStat, StoredZnode, inside_path, is_below
from zkgroup.zkfiles.snapshots import open_snapshot
from zkgroup.zkfiles.tree import Tree
from zkgroup.zkfiles.znode_columns import znode_batches

ABSENT: Final = -1
"""In place of a state: the path was not there."""
UNKNOWN: Final = -2
"""In place of a state: the snapshot does not tell."""

_STAT: Final = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "pzxid")
_CZXID, _MZXID, _CTIME, _MTIME = range(4)
_CLOCK_MS: Final = 3_600_000
"""So far the clocks of leaders may be apart."""
_VERSIONS: Final = [4, 6]
"""Of data and ACL; they never fall while a znode stands."""
OWNER: Final = 7
"""The column of `States.stats` with the `ephemeralOwner`."""
_COLUMNS: Final = select(SNAPSHOT, ("path", "data", "acl", *_STAT))
_ROWS_PER_BATCH: Final = 1 << 16
_DIGITS: Final = b"-0123456789"
_ALL_BUT_NUMBERS: Final = bytes(each for each in range(128) if each not in b"-0123456789,\n")
_STAT_LINE: Final = b"{%s}}\n" % b",".join(b'"%s":' % name.encode() for name in STAT_NAMES)
"""The end of a line that `audit export` wrote, without the numbers."""
_NUMBERS: Final = csv.ConvertOptions(column_types=dict.fromkeys(STAT_NAMES, pa.int64()), null_values=[])
_NUMBER_LINES: Final = csv.ReadOptions(use_threads=False, column_names=STAT_NAMES)
_FRONT, _DATA, _ACL, _END = b'{"path":"', b'","data_base64":', b',"acl":', b',"stat":'


class TreeSnapshot(NamedTuple):
    """What is known of a tree snapshot beside its znodes."""

    path: Path
    zxid: int
    """Everything in it is at least as new."""
    end_zxid: int
    """Nothing that is known in it is newer."""
    time_ms: int
    is_exact: bool
    """True if all that is known in it is of `end_zxid`."""
    detail: str
    """The reason why it is not; empty where it is."""
    header: ExportHeader | None = None
    """That of an export."""
    sessions: Mapping[int, int] | None = None
    """Timeouts in ms by session, of a server's snapshot."""
    changed: frozenset[str] = frozenset()
    """Paths that it has as they were later, or lacks because they went later."""
    unreadable: frozenset[str] = frozenset()
    """Paths that it lacks with everything below, for they could not be read."""

    @property
    def unknown(self) -> frozenset[str]:
        """The paths of which it proves nothing."""
        return self.changed | self.unreadable


class _Znodes(NamedTuple):
    """Some znodes as columns."""

    paths: Sequence[str]
    data: Any
    """A pyarrow array of bytes."""
    acls: Numbers
    """Numbers that `States.acls` has."""
    stats: Numbers
    """A row for each with the numbers of StoredStat."""


class States:
    """All states, by number. Those of one path follow each other in time."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        """By code."""
        self.acls: list[Acl | None] = []
        self.count = 0
        self.path = np.empty(0, np.int32)
        """By state the code of its path; longer than `count`, as are the next two."""
        self.acl = np.empty(0, np.int32)
        self.stats = np.empty((0, len(_STAT)), np.int64)
        self._codes: dict[str, int] = {}
        self._acl_codes: dict[Acl | None, int] = {}
        self._data: list[Any] = []
        self._starts: list[int] = []
        """Of each part of the data its first state."""
        self._last = np.empty(0, np.int32)
        """By code of a path its last state."""
        self._last_data: list[bytes | None] = []

    def code(self, path: str) -> int | None:
        """The code of a path; None where no snapshot has it."""
        return self._codes.get(path)

    def acl_code(self, acl: Acl | None) -> int:
        code = self._acl_codes.setdefault(acl, len(self.acls))
        if code == len(self.acls):
            self.acls.append(acl)
        return code

    def last_data(self, path: str) -> bytes | None:
        """The data of a path's last state; None where there is none."""
        code = self._codes.get(path)
        return None if code is None else self._last_data[code]

    def data(self, states: Numbers) -> list[bytes | None]:
        """The data of some states."""
        order = np.argsort(states, kind="stable")
        states = states[order]
        bounds = np.searchsorted(states, [*self._starts, self.count]).tolist()
        found: list[bytes | None] = []
        for part, start, (first, last) in zip(self._data, self._starts, pairwise(bounds), strict=True):
            if first < last:
                found += part.take(pa.array(states[first:last] - start)).to_pylist()
        return [found[place] for place in np.argsort(order).tolist()]

    def znodes(self, states: Numbers) -> Iterator[StoredZnode]:
        """Some states, as znodes."""
        rows = (self.path[states].tolist(), self.acl[states].tolist(), self.stats[states].tolist())
        for data, path, acl, stat in zip(self.data(states), *rows, strict=True):
            yield StoredZnode(self.paths[path], data, self.acls[acl], StoredStat(*stat))

    def intern(self, znodes: _Znodes) -> Numbers:
        """The state of each znode: the last one of its path, or a new one."""
        codes = self._codes_of(znodes.paths)
        numbers = self._last[codes]
        is_new = numbers == ABSENT
        known = np.flatnonzero(~is_new)
        is_new[known] = (self.stats[numbers[known]] != znodes.stats[known]).any(axis=1)
        data, last, places = znodes.data.to_pylist(), self._last_data, codes.tolist()
        is_new |= np.fromiter(map(ne, map(last.__getitem__, places), data), np.bool_, len(codes))
        new = np.flatnonzero(is_new)
        for row in new.tolist():
            last[places[row]] = data[row]
        end = self.count + len(new)
        numbers[new] = np.arange(self.count, end, dtype=np.int32)
        self.path, self.acl = _grown(self.path, end), _grown(self.acl, end)
        self.stats = _grown(self.stats, end)
        self.path[self.count : end] = codes[new]
        self.acl[self.count : end] = znodes.acls[new]
        self.stats[self.count : end] = znodes.stats[new]
        self._data.append(znodes.data if len(new) == len(codes) else znodes.data.take(pa.array(new)))
        self._starts.append(self.count)
        self._last[codes] = numbers
        self.count = end
        return numbers

    def _codes_of(self, paths: Sequence[str]) -> Numbers:
        known, names = self._codes, self.paths
        found = list(map(known.get, paths))
        if None in found:
            for place, code in enumerate(found):
                if code is None:
                    found[place] = code = known.setdefault(paths[place], len(names))
                    if code == len(names):
                        names.append(paths[place])
            before = len(self._last)
            self._last = _grown(self._last, len(names))
            self._last[before:] = ABSENT
            self._last_data += [None] * (len(names) - len(self._last_data))
        return np.array(found, np.int32)


def _grown(array: Numbers, count: int) -> Numbers:
    """The same numbers with room for so many, half as many again where that has to be made."""
    if count <= len(array):
        return array
    grown = np.empty((max(count, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


class StatesReader:
    """Reads tree snapshots one on top of the other. Memory: the states, and the last file.

    Paths are those of clients of the chroot, and what is outside is left out.
    """

    def __init__(self, chroot: str = "") -> None:
        self.states = States()
        self._chroot = chroot
        self._lines: dict[bytes, int] = {}
        """By line of an export its state; ABSENT for one outside the chroot."""
        self._acls: dict[bytes, int] = {}
        """By text in an export."""
        self._root = ""
        """The chroot of the exports whose lines are known."""

    def read_export(self, path: Path) -> tuple[TreeSnapshot, Numbers]:
        """An export, and the states of its znodes. Raises as `ExportReader.exported`."""
        header, lines = read_lines(path)
        if header.chroot != self._root:
            self._root, self._lines = header.chroot, {}
        cut = self._chroot.removeprefix(header.chroot)
        known = self._lines
        found = list(map(known.get, lines))
        if None in found:
            new = [line for line, state in zip(lines, found, strict=True) if state is None]
            states = self._intern(self._parsed(path, new), cut)
            if len(known) > 2 * len(lines):  # only the last snapshot's are of use
                self._lines = known = dict(zip(lines, found, strict=True))  # type: ignore[arg-type]
            known.update(zip(new, states.tolist(), strict=True))
            found = list(map(known.get, lines))
        numbers = np.array(found, np.int32)
        return self._dated(_of_header(path, header, cut), numbers[numbers != ABSENT])

    def read_snapshot(self, path: Path) -> tuple[TreeSnapshot, Numbers]:
        """A server's snapshot, and the states of its znodes. Raises as `SnapshotReader.znodes`."""
        reader = open_snapshot(path)
        parts = []
        for batch in znode_batches(reader, _COLUMNS, self._chroot, _ROWS_PER_BATCH):
            arrays = batch.arrays
            codes = [self.states.acl_code(acl) for acl in acls_of(arrays["acl"])]
            stats = np.stack([arrays[name].to_numpy() for name in _STAT], axis=1).astype(np.int64, copy=False)
            acls = np.array(codes, np.int32)[arrays["acl"].indices.to_numpy()]
            parts.append(_Znodes(arrays["path"].to_pylist(), arrays["data"], acls, stats))
        numbers = [self._intern(part, self._chroot) for part in parts]
        newest = max((int(part.stats[:, [_CZXID, _MZXID, -1]].max()) for part in parts), default=0)
        time_ms = max((int(part.stats[:, [_CTIME, _MTIME]].max()) for part in parts), default=0)
        end, detail = reader.end_zxid, ""
        if end is None:
            detail = "it does not say at which zxid it was complete"
        elif end > reader.zxid:
            detail = f"it was taken while writes went on, from {reader.zxid:#x} to {end:#x}"
        last = max(newest, reader.zxid) if end is None else end
        found = TreeSnapshot(path, reader.zxid, last, time_ms, not detail, detail, sessions=reader.sessions)
        states = np.concatenate([np.empty(0, np.int32), *numbers])
        return found, states[states != ABSENT]

    def read_tree(self, path: Path, header: ExportHeader, tree: Tree) -> tuple[TreeSnapshot, Numbers]:
        """A tree, as an export with that header has it, and the states of its znodes."""
        znodes = [znode for each in tree.paths() if (znode := tree.stored(each)) is not None]
        cut = self._chroot.removeprefix(header.chroot)
        numbers = self._intern(self._as_columns(znodes), cut)
        found = _of_header(path, header, cut)._replace(sessions=tree.sessions or None)
        return self._dated(found, numbers[numbers != ABSENT])

    def _dated(self, snapshot: TreeSnapshot, states: Numbers) -> tuple[TreeSnapshot, Numbers]:
        """With the newest time in it, where the header has none."""
        if snapshot.header is not None and snapshot.header.time_ms is None:
            time_ms = int(self.states.stats[states][:, [_CTIME, _MTIME]].max(initial=0))
            snapshot = snapshot._replace(time_ms=time_ms)
        return snapshot, states

    def _intern(self, znodes: _Znodes, cut: str) -> Numbers:
        """The states, without what is outside a chroot that is to be cut off."""
        if not cut:
            return self.states.intern(znodes)
        paths = [inside_path(path, cut) for path in znodes.paths]
        rows = np.array([row for row, path in enumerate(paths) if path is not None], np.int64)
        numbers = np.full(len(paths), ABSENT, np.int32)
        kept = [path for path in paths if path is not None]
        some = _Znodes(kept, znodes.data.take(pa.array(rows)), znodes.acls[rows], znodes.stats[rows])
        numbers[rows] = self.states.intern(some)
        return numbers

    def _parsed(self, path: Path, lines: Sequence[bytes]) -> _Znodes:
        """Lines of an export. Raises DamagedFileError."""
        try:
            return self._as_written(lines)
        except ValueError:  # not as zkgroup writes them, but JSON
            return self._as_json(path, lines)

    def _as_written(self, lines: Sequence[bytes]) -> _Znodes:
        """Raises ValueError for a line that has an escape or is not written by `write_export`."""
        ends, paths, data, acls = [], [], [], []
        known = self._acls
        for line in lines:
            front, _, end = line.rpartition(_END)
            front, _, acl = front.partition(_ACL)
            name, _, content = front.partition(_DATA)
            if not name.startswith(b'{"path":"/') or b"\\" in line:
                raise ValueError(line)
            ends.append(end)
            paths.append(name[len(_FRONT) :].decode())
            data.append(None if content == b"null" else _decoded(content))
            code = known.get(acl)
            acls.append(self._acl_of(acl) if code is None else code)
        text = b"\n".join((*ends, b""))
        if text.translate(None, _DIGITS) != _STAT_LINE * len(lines):
            raise ValueError("other keys")
        return _Znodes(paths, pa.array(data, pa.binary()), np.array(acls, np.int32), _stats(text))

    def _acl_of(self, text: bytes) -> int:
        entries = json.loads(text)
        is_list = isinstance(entries, list)
        acl = tuple(AclEntry(*entry) for entry in entries) if is_list else None
        if not (entries is None or is_list) or any(map(_is_odd, acl or ())):
            raise ValueError(text)
        self._acls[text] = code = self.states.acl_code(acl)
        return code

    def _as_json(self, path: Path, lines: Sequence[bytes]) -> _Znodes:
        try:
            znodes = [znode_of(path, 0, line).stored() for line in lines]
        except DamagedFileError:
            for _ in ExportReader(path).exported():  # which knows at what byte
                pass
            raise
        return self._as_columns(znodes)

    def _as_columns(self, znodes: Sequence[StoredZnode]) -> _Znodes:
        return _Znodes(
            [each.path for each in znodes],
            pa.array([each.data for each in znodes], pa.binary()),
            np.array([self.states.acl_code(each.acl) for each in znodes], np.int32),
            np.array([each.stat for each in znodes], np.int64).reshape(-1, len(_STAT)),
        )


def _decoded(content: bytes) -> bytes:
    if content[:1] != b'"' or content[-1:] != b'"':
        raise ValueError(content)
    return a2b_base64(content[1:-1], strict_mode=True) if len(content) > 2 else b""


def _is_odd(entry: AclEntry) -> bool:
    return (type(entry.perms), type(entry.scheme), type(entry.id)) != (int, str, str)


def _stats(text: bytes) -> Numbers:
    """The numbers of lines that each end with a Stat, as a server stores them. Raises ValueError."""
    numbers = text.translate(None, _ALL_BUT_NUMBERS)
    table = csv.read_csv(pa.py_buffer(numbers), read_options=_NUMBER_LINES, convert_options=_NUMBERS)
    shown = {name: table[name].to_numpy() for name in table.column_names}
    shown["cversion"] = (shown["cversion"] + shown["numChildren"]) // 2
    names = ("ephemeralOwner" if name == "owner" else name for name in _STAT)
    return np.stack([shown[name] for name in names], axis=1)


def _of_header(path: Path, header: ExportHeader, cut: str) -> TreeSnapshot:
    changed, unreadable = (
        frozenset(inside for path in paths if (inside := inside_path(path, cut)) is not None)
        for paths in (header.changed, header.unreadable)
    )
    if any(path == "/" or cut.startswith(f"{path}/") for path in header.unreadable):
        unreadable = frozenset("/")
    zxid, detail = header.zxid_before, header.detail
    end = max(zxid, header.zxid_after) if detail else zxid
    time_ms = header.time_ms or 0
    return TreeSnapshot(path, zxid, end, time_ms, not detail, detail, header, None, changed, unreadable)


class Runs(NamedTuple):
    """What each path was in snapshots that follow each other: columns, by path and then by snapshot."""

    path: Numbers
    """Codes that `States.paths` has."""
    state: Numbers
    """Or ABSENT. Where a path is unknown there is no run."""
    first: Numbers
    last: Numbers
    """Numbers of snapshots, both included."""

    def of(self, numbers: Sequence[int]) -> Runs:
        """Those of some of the snapshots, whose numbers begin at 0 then."""
        first = np.searchsorted(numbers, self.first, "left")
        last = np.searchsorted(numbers, self.last, "right") - 1
        rows = np.flatnonzero(first <= last)
        return Runs(self.path[rows], self.state[rows], first[rows], last[rows])

    def at(self, number: int) -> Runs:
        """Those that a snapshot is in, one for each path that it tells about."""
        return Runs(*(each[(self.first <= number) & (number <= self.last)] for each in self))


def contradiction(
    states: States, before: Numbers, now: Numbers, one: TreeSnapshot, other: TreeSnapshot
) -> str | None:
    """The path of a znode that shows that two snapshots are not of one history, the earlier one first.

    Args:
        before: the states in the earlier one, or ABSENT, of some paths that both tell about.
        now: those in the later one.

    A transaction has one time, and what the earlier one holds at its zxid the later one holds or has changed
    since. A znode of a persistent path that goes and comes back is made anew.
    """
    was_there = before >= 0
    old, new = states.stats[np.maximum(before, 0)], states.stats[now]
    czxid, mzxid, ctime, mtime = ((old[:, each], new[:, each]) for each in (_CZXID, _MZXID, _CTIME, _MTIME))
    is_same = czxid[0] == czxid[1]
    wrong = (is_same & (ctime[0] != ctime[1])) | ((mzxid[0] == mzxid[1]) & (mtime[0] != mtime[1]))
    # A state that a snapshot of a later moment came between has two numbers.
    same = np.flatnonzero(was_there & (before != now) & (old == new).all(axis=1))
    if len(same):
        wrong[same] |= list(map(ne, states.data(before[same]), states.data(now[same])))
    is_later = other.zxid >= one.end_zxid
    if is_later:
        wrong |= is_same & (new[:, _VERSIONS] < old[:, _VERSIONS]).any(axis=1)
    # All up to its zxid is in it.
    zxid = one.zxid if one.is_exact or one.header is None else 0
    wrong |= (np.maximum(*czxid) <= zxid) & ~is_same
    wrong |= is_same & (np.maximum(*mzxid) <= zxid) & (mzxid[0] < mzxid[1])
    wrong &= was_there
    written = np.maximum(czxid[1], mzxid[1]) > one.end_zxid
    if one.header is None and written.any() and mtime[1][written].max() + _CLOCK_MS < one.time_ms:
        wrong |= written  # all that was written since is older
    if is_later:
        wrong |= ~was_there & (czxid[1] <= zxid) & (new[:, OWNER] == 0)
    paths = (states.paths[code] for code in states.path[now[wrong]].tolist())
    # Each server keeps quotas and the configuration by itself.
    return next((path for path in paths if not path.startswith("/zookeeper/")), None)


class RunsBuilder:
    """Takes the states of snapshots in their order."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._count = 0
        self._open = np.empty(0, np.int32)
        """By code of a path what the last snapshot has of it, and the first one of this run."""
        self._first = np.empty(0, np.int32)
        self._parts: list[Numbers] = []
        self._unknown: list[tuple[int, frozenset[str]]] = []
        self.later: dict[int, Numbers] = {}
        """By number of a snapshot its states that are of another moment."""

    def add(self, numbers: Numbers, unknown: frozenset[str] = frozenset()) -> tuple[Numbers, Numbers]:
        """The next one; unknown are these paths, and what is missing below them.

        Returns the states that paths had before, or ABSENT, and have now, where these are not the same.
        """
        states = self._states
        self._extend()
        now = np.full(len(states.paths), ABSENT, np.int32)
        now[states.path[numbers]] = numbers
        if unknown:
            self._unknown.append((self._count, unknown))
            codes = [code for path in unknown if (code := states.code(path)) is not None]
            self.later[self._count] = now[codes][now[codes] != ABSENT]
            now[codes] = UNKNOWN
            for code in np.flatnonzero(now == ABSENT).tolist():
                if is_below(states.paths[code], unknown):
                    now[code] = UNKNOWN
        changed = np.flatnonzero(now != self._open)
        before = self._open[changed]
        self._close(changed, self._count - 1)
        self._open[changed], self._first[changed] = now[changed], self._count
        self._count += 1
        both = (before != UNKNOWN) & (now[changed] >= 0)
        return before[both], now[changed][both]

    def runs(self) -> Runs:
        """Those of all that were added."""
        self._close(np.arange(len(self._open), dtype=np.int32), self._count - 1)
        rows = np.concatenate([np.empty((4, 0), np.int32), *self._parts], axis=1)
        return Runs(*rows[:, np.lexsort((rows[2], rows[0]))])

    def _extend(self) -> None:
        """Paths that are new were absent so far, or unknown."""
        start, end = len(self._open), len(self._states.paths)
        self._open = np.append(self._open, np.full(end - start, ABSENT, np.int32))
        self._first = np.append(self._first, np.zeros(end - start, np.int32))
        for number, unknown in self._unknown:
            paths = self._states.paths[start:end]
            codes = [code for code, path in enumerate(paths, start) if is_below(path, unknown)]
            self._close(np.array(codes, np.int32), number - 1)
            self._first[codes] = number + 1
            if number == self._count - 1:
                self._open[codes] = UNKNOWN

    def _close(self, codes: Numbers, last: int) -> None:
        codes = codes[(self._open[codes] != UNKNOWN) & (self._first[codes] <= last)]
        ends = np.full(len(codes), last, np.int32)
        self._parts.append(np.stack((codes.astype(np.int32), self._open[codes], self._first[codes], ends)))
