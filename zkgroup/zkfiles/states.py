"""The states of znodes in tree snapshots that follow each other, each kept once. Needs numpy.

A line of an export that the snapshot before had too is not parsed again, and the znodes of a server's
snapshot are compared with those before in columns. Two states of a path are the same where the nine numbers
of the stat and the data are: an ACL never changes without `aversion`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import eq, ne
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from zkgroup.zkfiles.arrow import SNAPSHOT, Numbers, acls_of, select
from zkgroup.zkfiles.exports import ExportHeader, ExportReader, znode_of
from zkgroup.zkfiles.records import Acl, StoredStat, StoredZnode, inside_path, is_below
from zkgroup.zkfiles.snapshots import TreeSnapshot, open_snapshot
from zkgroup.zkfiles.tree import Tree
from zkgroup.zkfiles.znode_columns import znode_batches

ABSENT: Final = -1
"""In place of a state: the path was not there."""
_UNKNOWN: Final = -2
STAT: Final = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "pzxid")
"""The columns of `States.stats`, which are the numbers of StoredStat."""
_CZXID, _MZXID, _CTIME, _MTIME = range(4)
OWNER, _PZXID = STAT.index("owner"), STAT.index("pzxid")
_VERSIONS: Final = [STAT.index("version"), STAT.index("aversion")]
"""They never fall while a znode stands."""
_COLUMNS: Final = select(SNAPSHOT, ("path", "data", "acl", *STAT))
_ROWS_PER_BATCH: Final = 1 << 16
_CLOCK_MS: Final = 60_000
"""So far clocks may be apart of those who export from one source; sixty times that of others."""


class Znodes(NamedTuple):
    """Some znodes as columns."""

    paths: Sequence[str]
    data: Sequence[bytes | None]
    acls: Numbers
    """Numbers that `States.acls` has."""
    stats: Numbers
    """A row for each with the numbers of StoredStat."""


class States:
    """All states, by number. Those of one path follow each other in time."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        """By code; those that any snapshot has."""
        self.acls: list[Acl | None] = []
        self.path = np.empty(0, np.int32)
        """By state the code of its path; longer than there are states, as are the next two."""
        self.acl = np.empty(0, np.int32)
        self.stats = np.empty((0, len(STAT)), np.int64)
        self._data: list[bytes | None] = []
        """By state."""
        self._codes: dict[str, int] = {}
        self._acl_codes: dict[Acl | None, int] = {}
        self._last = np.empty(0, np.int32)
        """By code of a path its last state."""

    def acl_code(self, acl: Acl | None) -> int:
        """The place of an ACL among `acls`."""
        code = self._acl_codes.setdefault(acl, len(self.acls))
        self.acls += [acl] if code == len(self.acls) else []
        return code

    def code(self, path: str) -> int | None:
        """The code of a path; None where no snapshot has it."""
        return self._codes.get(path)

    def data(self, states: Numbers) -> list[bytes | None]:
        """The data of some states."""
        return [*map(self._data.__getitem__, states.tolist())]

    def columns(self, znodes: Sequence[StoredZnode]) -> Znodes:
        """Znodes as columns."""
        return Znodes(
            [each.path for each in znodes],
            [each.data for each in znodes],
            np.array([self.acl_code(each.acl) for each in znodes], np.int32),
            np.array([each.stat for each in znodes], np.int64).reshape(-1, len(STAT)),
        )

    def znodes(self, states: Numbers) -> Iterator[StoredZnode]:
        """Some states, as znodes."""
        rows = (self.path[states].tolist(), self.acl[states].tolist(), self.stats[states].tolist())
        for state, path, acl, stat in zip(states.tolist(), *rows, strict=True):
            yield StoredZnode(self.paths[path], self._data[state], self.acls[acl], StoredStat(*stat))

    def by_path(self, states: Numbers) -> Numbers:
        """By code of a path its state among these, or ABSENT."""
        found = np.full(len(self.paths), ABSENT, np.int32)
        found[self.path[states]] = states
        return found

    def intern(self, znodes: Znodes) -> Numbers:
        """The state of each znode: the last one of its path, or a new one."""
        known = self._codes
        for path in znodes.paths:
            if path not in known:
                known[path] = len(known)
        codes = np.array([*map(known.__getitem__, znodes.paths)], np.int32)
        self.paths += islice(known, len(self.paths), None)
        self._last = _grown(self._last, len(known))
        numbers = self._last[codes]
        is_old = numbers != ABSENT
        is_old[is_old] = (self.stats[numbers[is_old]] == znodes.stats[is_old]).all(axis=1)
        rows = np.flatnonzero(is_old)
        is_old[rows] = [*map(eq, self.data(numbers[rows]), map(znodes.data.__getitem__, rows.tolist()))]
        new = np.flatnonzero(~is_old)
        start, end = len(self._data), len(self._data) + len(new)
        numbers[new] = np.arange(start, end, dtype=np.int32)
        self.path, self.acl, self.stats = (_grown(each, end) for each in (self.path, self.acl, self.stats))
        self.path[start:end], self.acl[start:end] = codes[new], znodes.acls[new]
        self.stats[start:end] = znodes.stats[new]
        self._data += [znodes.data[row] for row in new.tolist()]
        self._last[codes] = numbers
        return numbers

    def fill(self, paths: list[str], codes: Numbers, znodes: Znodes) -> None:
        """Takes all states at once, by the codes of their paths, into an empty table."""
        self.paths, self.path, self.acl, self.stats = paths, codes, znodes.acls, znodes.stats
        self._data, self._codes = [*znodes.data], {path: code for code, path in enumerate(paths)}

    def differ(self, some: Numbers, others: Numbers) -> Numbers:
        """Whether states differ in their data from others."""
        return np.array([*map(ne, self.data(some), self.data(others))], np.bool_)


def _grown(array: Numbers, count: int) -> Numbers:
    """The same numbers with room for so many, a quarter more where that has to be made."""
    if count <= len(array):
        return array
    grown = np.full((max(count, len(array) * 5 // 4), *array.shape[1:]), ABSENT, array.dtype)
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
        """By line of the last export its state; ABSENT for one outside the chroot."""
        self._root = ""
        """The chroot of that export."""

    def read_export(self, path: Path) -> tuple[TreeSnapshot, Numbers]:
        """An export, and the states of its znodes. Raises as `ExportReader.exported`."""
        reader = ExportReader(path)
        header, lines = reader.header, list(reader.lines())
        known = self._lines if header.chroot == self._root else {}
        new = [(at, line) for at, line in lines if line not in known]
        states = self._intern(self.states.columns([znode_of(path, *each).stored() for each in new]), header)
        known = known | dict(zip((line for _, line in new), states.tolist(), strict=True))
        self._root, self._lines = header.chroot, {line: known[line] for _, line in lines}
        return self._of_header(path, header, np.array([*self._lines.values()], np.int32))

    def read_tree(self, path: Path, header: ExportHeader, tree: Tree) -> tuple[TreeSnapshot, Numbers]:
        """A tree, as an export with that header has it, and the states of its znodes."""
        znodes = [znode for each in tree.paths() if (znode := tree.stored(each)) is not None]
        found, states = self._of_header(path, header, self._intern(self.states.columns(znodes), header))
        return found._replace(sessions=tree.sessions or None), states

    def read_snapshot(self, path: Path) -> tuple[TreeSnapshot, Numbers]:
        """A server's snapshot, and the states of its znodes. Raises as `SnapshotReader.znodes`."""
        reader = open_snapshot(path)
        parts = []
        for batch in znode_batches(reader, _COLUMNS, self._chroot, _ROWS_PER_BATCH):
            of = batch.arrays
            codes = np.array([self.states.acl_code(acl) for acl in acls_of(of["acl"])], np.int32)
            stats = np.stack([of[name].to_numpy() for name in STAT], axis=1).astype(np.int64, copy=False)
            acls = codes[of["acl"].indices.to_numpy()]
            parts.append(Znodes(of["path"].to_pylist(), of["data"].to_pylist(), acls, stats))
        numbers = np.concatenate([np.empty(0, np.int32), *(self._intern(part) for part in parts)])
        states = numbers[numbers != ABSENT]
        end, detail = reader.end_zxid, ""
        if end is None:
            end = max(self._newest(states, _CZXID, _MZXID, _PZXID), reader.zxid)
            detail = "it does not say at which zxid it was complete"
        elif end > reader.zxid:
            detail = f"it was taken while writes went on, from {reader.zxid:#x} to {end:#x}"
        time_ms = self._newest(states, _CTIME, _MTIME)
        return TreeSnapshot(path, reader.zxid, end, time_ms, detail, sessions=reader.sessions), states

    def _of_header(self, path: Path, header: ExportHeader, numbers: Numbers) -> tuple[TreeSnapshot, Numbers]:
        """With the newest time in it, where the header has none."""
        states, cut = numbers[numbers != ABSENT], self._chroot.removeprefix(header.chroot)
        changed, unreadable = (
            frozenset(inside for each in paths if (inside := inside_path(each, cut)) is not None)
            for paths in (header.changed, header.unreadable)
        )
        if any(each == "/" or cut.startswith(f"{each}/") for each in header.unreadable):
            unreadable = frozenset("/")
        zxid, detail, time_ms = header.zxid_before, header.detail, header.time_ms
        end = max(zxid, header.zxid_after) if detail else zxid
        time_ms = self._newest(states, _CTIME, _MTIME) if time_ms is None else time_ms
        unknown = changed | unreadable
        return TreeSnapshot(path, zxid, end, time_ms, detail, header, None, unreadable, unknown), states

    def _newest(self, states: Numbers, *columns: int) -> int:
        return int(self.states.stats[states][:, columns].max(initial=0))

    def _intern(self, znodes: Znodes, header: ExportHeader | None = None) -> Numbers:
        """The states, and ABSENT for what is outside a chroot that is to be cut off."""
        cut = self._chroot.removeprefix("" if header is None else header.chroot)
        if not cut:
            return self.states.intern(znodes)
        inside = {row: path for row, each in enumerate(znodes.paths) if (path := inside_path(each, cut))}
        numbers, rows = np.full(len(znodes.paths), ABSENT, np.int32), [*inside]
        data = [znodes.data[row] for row in rows]
        some = Znodes([*inside.values()], data, znodes.acls[rows], znodes.stats[rows])
        numbers[rows] = self.states.intern(some)
        return numbers


class Runs(NamedTuple):
    """What each path was in snapshots that follow each other: columns, by path and then by snapshot."""

    path: Numbers
    """Codes that `States.paths` has."""
    state: Numbers
    """Or ABSENT."""
    first: Numbers
    last: Numbers
    """Numbers of snapshots, both included."""


def runs_of(states: States, snapshots: Sequence[TreeSnapshot], trees: Sequence[Numbers]) -> Runs:
    """The runs of all paths in snapshots that follow each other, without those that do not tell about them.

    Args:
        trees: the states in each snapshot.
    """
    last, changes = np.full(len(states.paths), _UNKNOWN, np.int32), [np.empty((3, 0), np.int32)]
    mzxid = np.ascontiguousarray(states.stats[:, STAT.index("mzxid")])
    for number, (snapshot, tree) in enumerate(zip(snapshots, trees, strict=True)):
        now, unknown = states.by_path(tree), snapshot.unknown
        if unknown:
            below = tuple(f"{path.rstrip('/')}/" for path in unknown)
            absent = np.flatnonzero(now == ABSENT).tolist()
            now[[code for code in absent if states.paths[code].startswith(below)]] = _UNKNOWN
            now[[code for path in unknown if (code := states.code(path)) is not None]] = _UNKNOWN
        # A state that is read anew, as another snapshot came between, is the one before.
        again = np.flatnonzero((now != last) & (now >= 0) & (last >= 0))
        again = again[mzxid[now[again]] == mzxid[last[again]]]  # most are not, and one column is cheap
        again = again[(states.stats[now[again]] == states.stats[last[again]]).all(axis=1)]
        again = again[~states.differ(now[again], last[again])]
        now[again] = last[again]
        codes = np.flatnonzero(now != last).astype(np.int32)
        changes.append(np.stack((codes, now[codes], np.full_like(codes, number))))
        last = now
    whole = np.concatenate(changes, axis=1)
    path, state, first = whole[:, np.argsort(whole[0], kind="stable")]
    ends = np.append(first[1:] - 1, 0)[: len(first)]
    ends[np.append(path[1:] != path[:-1], np.True_)[: len(path)]] = len(snapshots) - 1
    return Runs(*(each[state != _UNKNOWN] for each in (path, state, first, ends)))


def why_apart(
    states: States, first: tuple[TreeSnapshot, Numbers], second: tuple[TreeSnapshot, Numbers]
) -> str | None:
    """The reason why two snapshots with their states are not of one history; None where they may be.

    A transaction has one time, and what the first one holds at its zxid the second one holds or has changed
    since. A znode of a persistent path that goes and comes back is made anew.
    """
    (one, before), (other, now) = ((each, states.by_path(tree)) for each, tree in (first, second))
    unknown = one.unknown | other.unknown
    untold = [code for path in unknown if (code := states.code(path)) is not None]
    codes = np.setdiff1d(np.flatnonzero((now != ABSENT) & (before != now)), untold)
    before, now = before[codes], now[codes]
    was_there = before != ABSENT
    old, new = states.stats[before], states.stats[now]
    czxid, mzxid, ctime, mtime = ((old[:, each], new[:, each]) for each in (_CZXID, _MZXID, _CTIME, _MTIME))
    is_same = czxid[0] == czxid[1]
    wrong = (is_same & (ctime[0] != ctime[1])) | ((mzxid[0] == mzxid[1]) & (mtime[0] != mtime[1]))
    # A state that a snapshot of a later moment came between has two numbers.
    is_equal = was_there & (old == new).all(axis=1)
    wrong[is_equal] |= states.differ(before[is_equal], now[is_equal])
    is_later = other.zxid >= one.end_zxid
    if is_later:
        wrong |= is_same & (new[:, _VERSIONS] < old[:, _VERSIONS]).any(axis=1)
    # All up to its zxid is in it.
    zxid = one.zxid if one.is_exact or one.header is None else 0
    wrong |= (np.maximum(*czxid) <= zxid) & ~is_same
    wrong |= is_same & (np.maximum(*mzxid) <= zxid) & (mzxid[0] < mzxid[1])
    wrong &= was_there
    written = np.maximum(czxid[1], mzxid[1]) > one.end_zxid
    if one.header is None and written.any() and mtime[1][written].max() + 60 * _CLOCK_MS < one.time_ms:
        wrong |= written  # all that was written since is older
    if is_later:
        wrong |= ~was_there & (czxid[1] <= zxid) & (new[:, OWNER] == 0)
    for row in np.flatnonzero(wrong).tolist():
        path: str = states.paths[codes[row]]
        # Each server keeps quotas and the configuration by itself.
        if not path.startswith("/zookeeper/") and (was_there[row] or not is_below(path, unknown)):
            return f"{path} cannot be in both as it is; zxids may have begun anew"
    headers = [each.header for each in (one, other) if each.header is not None]
    if len(headers) == 2 and not any(each.time_ms is None or each.detail for each in headers):
        apart = _CLOCK_MS if headers[0].source == headers[1].source else 60 * _CLOCK_MS
        if one.time_ms > other.time_ms + apart:
            return f"the later one has the lower zxid, {one.zxid:#x}; zxids began anew"
    return None
