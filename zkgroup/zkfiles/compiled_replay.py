"""Applies many records to a tree at once: `Tree.apply` and `Tree.has` in columns.

Only what is plain is done here: every znode that is set or deleted is there, every one that is made is not,
counts of creates rise, nothing is deleted with children, and the record of a session's end names all its
ephemerals. Anything else is refused with nothing done, for a copy of the znodes' numbers is changed.
The numbers stay here from stretch to stretch, and come into the tree when `settle` is called.
Importing it raises ImportError where the kernel was not built or is switched off, without numpy and without
pyarrow.

Sources: DataTree.java and DigestCalculator.java@3.9.4, as `tree` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeGuard
from zlib import crc32

import numpy as np

from zkgroup.zkfiles import compiled as compiled  # for its switch
from zkgroup.zkfiles.arrow import coded
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.stretches import (
    DROP,
    MAKE,
    SET,
    Compared,
    Flags,
    Numbers,
    OddRowsError,
    Stretch,
    crcs_of,
    slices_of,
)
from zkgroup.zkfiles.tree import Tree

_FIELDS: Final = (
    *("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "children"),
    *("base", "crc"),
)
"""Of a znode; then whether it is there, the rows that made and wrote it, and whether it was changed."""
_CZXID, _MZXID, _PZXID, _CTIME, _MTIME, _VERSION, _CVERSION, _AVERSION, _OWNER, _CHILDREN, _BASE, _CRC = (
    range(len(_FIELDS))
)
_IS_THERE, _MADE, _WRITTEN, _CHANGED = range(len(_FIELDS), len(_FIELDS) + 4)
_NOTHING: Final = (0,) * len(_FIELDS)
_numbers_of: Final = attrgetter(*_FIELDS)
_BEGIN, _GAIN, _LOSE = 0, DROP + 1, DROP + 2
"""Beside SET, MAKE and DROP: what a znode is before all rows, and that a child comes or goes."""
_COUNTED: Final = np.dtype(
    [(name, ">i8") for name in ("czxid", "mzxid", "pzxid", "ctime", "mtime")]
    + [(name, ">i4") for name in ("version", "cversion", "aversion")]
    + [("owner", ">i8")]
)
"""The bytes of a znode's history of which its digest is made."""
_NOT_COUNTED: Final = -1
_OUTSIDE: Final = "/zookeeper/"
_MOST_LEVELS, _MOST_PATH = 64, 4096
_MOST_CREATES: Final = 2**31 - 1


class CompiledPaths:
    """A number for each path of a replay, with that of its parent, the CRC of its bytes, and its znode.

    Negative for none, for the root, and for paths that are not counted.
    """

    def __init__(self) -> None:
        self._codes: dict[str | None, int] = {}
        self.names: list[str] = []
        self._parents: list[int] = []
        self._crcs: list[int] = []
        self.parents: Numbers = np.empty(0, np.int64)
        self.crcs: Numbers = np.empty(0, np.int64)
        self._znodes = _Znodes()

    def codes_of(self, batches: Sequence[Batch]) -> Numbers:
        """Of the paths of batches."""
        for batch in batches:
            slices_of(batch, "path")
        places, names = coded(batches, "path")
        codes: Numbers = self._codes_of(names)[places]
        return codes

    def apply(self, tree: Tree, rows: Stretch) -> Compared:
        """Takes the next records. Raises OddRowsError, with nothing done, for what is not plain."""
        if tree.has_orphans:
            raise OddRowsError("children of deleted znodes")
        touched, own, above = _places(rows, self)
        sessions = np.unique(rows.session[list(rows.closed)])
        codes = np.concatenate((touched, self._ephemerals(tree, sessions)))
        znodes = self._znodes
        znodes.load(tree, self.names, codes)
        before = znodes.before(touched, int(rows.zxid[0]))
        found = _replayed(rows, own, above, before, self.crcs)
        _require_ends(rows, found, sessions, znodes.owned(sessions))
        total, compared = _compared(rows, found.digest, tree.digest)
        if compared.wrong and not tree.keeps_charset(compared.wrong):
            raise OddRowsError("paths in another charset")
        znodes.keep(touched, found.znodes, rows)
        rows.tell_sessions(tree.sessions)
        tree.jump(int(rows.zxid[-1]), int(rows.time_ms[-1]), total)
        return compared

    def settle(self) -> None:
        """Brings the tree to what `apply` made of it; before that its znodes are those of earlier."""
        self._znodes.settle(self.names)

    def _ephemerals(self, tree: Tree, sessions: Numbers) -> Numbers:
        """The codes of what the tree has of these sessions."""
        names = [name for session in sessions.tolist() for name in tree.ephemerals(session)]
        if not all(map(str.isascii, names)):
            raise OddRowsError("an ephemeral beyond ASCII")
        codes = self._codes_of(names)
        if (codes < 0).any():
            raise OddRowsError("an ephemeral that is not counted")
        return codes

    def _codes_of(self, names: Sequence[str | None]) -> Numbers:
        codes = np.array([self._code_of(name) for name in names], np.int64)
        new = len(self.parents)
        if new < len(self.names):
            self.parents = np.concatenate((self.parents, np.array(self._parents[new:], np.int64)))
            self.crcs = np.concatenate((self.crcs, np.array(self._crcs[new:], np.int64)))
        return codes

    def _code_of(self, path: str | None) -> int:
        """The code of a path, with those above it."""
        known = self._codes.get(path)
        if known is not None:
            return known
        code = _NOT_COUNTED
        if _is_counted(path):
            parent = self._code_of(path.rpartition("/")[0]) if path else _NOT_COUNTED
            code = len(self.names)
            self.names.append(path)
            self._parents.append(parent)
            self._crcs.append(crc32(path.encode()))
        self._codes[path] = code
        return code


def _is_counted(path: str | None) -> TypeGuard[str]:
    return (
        path is not None
        and path != "/"
        and len(path) <= _MOST_PATH
        and path.count("/") <= _MOST_LEVELS
        and not path.startswith(_OUTSIDE)
    )


class _Replayed(NamedTuple):
    """Holds what rows made of the znodes that they touch."""

    znodes: Numbers
    """The numbers of each."""
    digest: Numbers
    """Says how each row changed the digest."""
    owners: Numbers
    """Of each row that made or dropped an ephemeral: its session, the row, and 1 or -1."""


class _Events:
    """Holds what happened to each znode, one after the other: first what it was, then each row about it."""

    def __init__(self, rows: Stretch, own: Numbers, above: Numbers, before: Numbers) -> None:
        acts = np.flatnonzero(rows.act > 0)
        moves = acts[rows.act[acts] != SET]
        znodes = np.arange(len(before))
        node = np.concatenate((znodes, own[acts], above[moves]))
        row = np.concatenate((np.full(len(before), -1), acts, moves))
        child = np.where(rows.act[moves] == MAKE, _GAIN, _LOSE)
        kind = np.concatenate((np.full(len(before), _BEGIN), rows.act[acts], child))
        order = np.argsort(node * (len(rows) + 1) + row + 1)
        self.row, self.kind = row[order], kind[order]
        self._before = before.T.copy()
        self._places = np.arange(len(order))
        self.begins: Flags = self.kind == _BEGIN
        self.ends: Flags = np.append(self.begins[1:], True)

    def last(self, *kinds: int) -> Numbers:
        """For each event the place of the last one of these kinds, or of the beginning."""
        is_one = self.begins | np.isin(self.kind, kinds)
        found: Numbers = np.maximum.accumulate(np.where(is_one, self._places, 0))
        return found

    def field(self, field: int, last: Numbers, values: Any) -> Numbers:
        """Returns what a field is behind each event, where events at `last` give it these values."""
        found = np.empty(len(self.row), np.int64)
        found[:] = values
        found[self.begins] = self._before[field]
        return found[last]


def _replayed(rows: Stretch, own: Numbers, above: Numbers, before: Numbers, seeds: Numbers) -> _Replayed:
    """Applies the rows to the znodes, which were so before. Raises OddRowsError for what is not plain."""
    events = _Events(rows, own, above, before)
    row, kind, begins = events.row, events.kind, events.begins
    zxid, ms, places = rows.zxid[row], rows.time_ms[row], np.arange(len(row))
    made, written = events.last(MAKE), events.last(SET, MAKE)
    owner = np.where(rows.is_ephemeral[row], rows.session[row], 0)
    version = np.where(kind == SET, rows.version[row], 0)
    count = np.where(kind == _GAIN, rows.count[row], 0)
    is_next = (kind == _GAIN) & (count == -1)
    told = np.maximum.accumulate(np.where(begins | (kind == MAKE) | (kind == _GAIN) & ~is_next, places, 0))
    nexts = np.cumsum(is_next)
    creates = events.field(_CVERSION, told, count) + nexts - nexts[told]
    change = events.field(_CHILDREN, places, (kind == _GAIN) * 1 - (kind == _LOSE))
    children = np.cumsum(change)
    children -= (children - change)[events.last()]
    writes = (rows.act == SET) | (rows.act == MAKE)
    sums = rows.data.crcs(np.where(writes, rows.path, -1), seeds)
    fields = [
        events.field(_CZXID, made, zxid),
        events.field(_MZXID, written, zxid),
        events.field(_PZXID, events.last(MAKE, _GAIN, _LOSE), zxid),
        events.field(_CTIME, made, ms),
        events.field(_MTIME, written, ms),
        events.field(_VERSION, written, version),
        creates,
        events.field(_AVERSION, made, 0),
        events.field(_OWNER, made, owner),
        children,
        events.field(_BASE, written, sums[row]),
        np.zeros(len(row), np.int64),
        events.field(_IS_THERE, events.last(MAKE, DROP), kind == MAKE),
        events.field(_MADE, made, row),
        events.field(_WRITTEN, written, row),
        (~begins).astype(np.int64),
    ]
    _require_plain(kind, fields)
    crcs = fields[_CRC] = _crcs(fields, begins, before)
    changed = np.flatnonzero(~begins)
    changes = crcs[changed] - crcs[changed - 1]
    of_parents = kind[changed] > DROP
    digest = np.zeros(len(rows), np.int64)
    digest[row[changed[~of_parents]]] = changes[~of_parents]
    digest[row[changed[of_parents]]] += changes[of_parents]
    owned = np.flatnonzero(((kind == MAKE) | (kind == DROP)) & (fields[_OWNER] != 0))
    signs = np.where(kind[owned] == MAKE, 1, -1)
    owners = np.stack((fields[_OWNER][owned], row[owned], signs))
    return _Replayed(np.stack([field[events.ends] for field in fields], axis=1), digest, owners)


def _require_plain(kind: Numbers, fields: Sequence[Numbers]) -> None:
    """Raises OddRowsError for events that only `tree` knows the rules for."""
    later, creates, owners = kind[1:], fields[_CVERSION], fields[_OWNER]
    odd = (later != _BEGIN) & ((fields[_IS_THERE][:-1] != 0) == (later == MAKE))
    odd |= (later == DROP) & (fields[_CHILDREN][:-1] != 0)
    odd |= (later == _GAIN) & ((creates[1:] <= creates[:-1]) | (creates[1:] >= _MOST_CREATES))
    made = np.unique(owners[(kind == MAKE) & (owners != 0)])
    if odd.any() or not all(lifetime_of(owner) == "session" for owner in made.tolist()):
        raise OddRowsError("records that are not plain")


def _crcs(fields: Sequence[Numbers], begins: Flags, before: Numbers) -> Numbers:
    """Returns what each znode adds to the digest behind each event."""
    crcs = np.zeros(len(begins), np.int64)
    crcs[begins] = before[:, _CRC]
    counted = np.flatnonzero(~begins & (fields[_IS_THERE] != 0))
    history = np.empty(len(counted), _COUNTED)
    for field, name in zip(fields, _COUNTED.names or (), strict=False):
        history[name] = field[counted]
    size = _COUNTED.itemsize
    starts = range(0, history.nbytes, size)
    ends = range(size, history.nbytes + size, size)
    crcs[counted] = crcs_of(history.tobytes(), starts, ends, fields[_BASE][counted])
    return crcs


def _require_ends(rows: Stretch, found: _Replayed, sessions: Numbers, owned: Numbers) -> None:
    """Raises OddRowsError for the end of a session that did not name all its ephemerals."""
    if not len(sessions):
        return
    owners, places, signs = found.owners
    numbers = np.minimum(np.searchsorted(sessions, owners), len(sessions) - 1)
    is_asked = sessions[numbers] == owners
    width = len(rows) + 1
    keys = numbers[is_asked] * width + places[is_asked]
    order = np.argsort(keys)
    counts = np.append(0, np.cumsum(signs[is_asked][order]))
    closed = np.array(rows.closed, np.int64)
    session = np.searchsorted(sessions, rows.session[closed])
    until = np.searchsorted(rows.zxid, rows.zxid[closed], "right")
    ends = np.searchsorted(keys[order], session * width + until)
    starts = np.searchsorted(keys[order], session * width)
    if (owned[session] + counts[ends] - counts[starts]).any():
        raise OddRowsError("ephemerals that an end of a session does not name")


def _compared(rows: Stretch, changes: Numbers, digest: int) -> tuple[int, Compared]:
    """The digest behind the last row, and how those of the records compare with what they should be."""
    sums = np.cumsum(changes) + digest
    ends = np.flatnonzero(np.append(rows.zxid[1:] != rows.zxid[:-1], True))
    told = ends[rows.has_digest[ends]]
    wrong = told[sums[told] != rows.digest[told]]
    first_wrong = int(rows.zxid[wrong[0]]) if len(wrong) else None
    return int(sums[-1]), Compared(len(ends), len(told), len(wrong), first_wrong)


class _Znodes:
    """The numbers of znodes by code, of those that were loaded from a tree."""

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._numbers: Numbers = np.zeros((0, _CHANGED + 1), np.int64)
        self._is_loaded: Flags = np.zeros(0, np.bool_)
        self._acls: dict[int, Acl | None] = {}
        """Of the znodes that were made since."""
        self._data: dict[int, bytes | None] = {}
        """Of those that were written."""

    def load(self, tree: Tree, names: Sequence[str], codes: Numbers) -> None:
        """Those of these codes that are not here. Raises OddRowsError for those that are not counted."""
        if tree is not self._tree:
            self.settle(names)
            self._tree = tree
        more = len(names) - len(self._is_loaded)
        if more:
            self._numbers = np.concatenate((self._numbers, np.zeros((more, _CHANGED + 1), np.int64)))
            self._is_loaded = np.concatenate((self._is_loaded, np.zeros(more, np.bool_)))
        new = codes[~self._is_loaded[codes]]
        if not len(new):
            return
        nodes = tree.nodes_at([names[code] for code in new.tolist()])
        if any(node is not None and node.base is None for node in nodes):
            raise OddRowsError("znodes that are not counted")
        self._numbers[new, :_IS_THERE] = [_NOTHING if node is None else _numbers_of(node) for node in nodes]
        self._numbers[new, _IS_THERE] = [node is not None for node in nodes]
        self._is_loaded[new] = True

    def before(self, codes: Numbers, first_zxid: int) -> Numbers:
        """A copy of the numbers of some, as they are before a stretch."""
        numbers: Numbers = self._numbers[codes]
        numbers[:, [_MADE, _WRITTEN]] = -1
        numbers[:, _CHANGED] = 0
        if (numbers[:, [_CZXID, _PZXID]] >= first_zxid).any():
            raise OddRowsError("znodes that are later than the records")
        return numbers

    def owned(self, sessions: Numbers) -> Numbers:
        """Returns how many znodes of each session are there."""
        if not len(sessions):
            return np.zeros(0, np.int64)
        is_owned = self._is_loaded & (self._numbers[:, _IS_THERE] != 0) & (self._numbers[:, _OWNER] != 0)
        owners = np.sort(self._numbers[is_owned, _OWNER])
        counts: Numbers = np.searchsorted(owners, sessions, "right") - np.searchsorted(owners, sessions)
        return counts.astype(np.int64)

    def keep(self, codes: Numbers, numbers: Numbers, rows: Stretch) -> None:
        """Takes what a stretch made of them."""
        changed = self._numbers[codes, _CHANGED] | numbers[:, _CHANGED]
        self._numbers[codes] = numbers
        self._numbers[codes, _CHANGED] = changed
        made, written = numbers[:, _MADE], numbers[:, _WRITTEN]
        places = np.flatnonzero(made >= 0)
        acls = map(rows.acls.__getitem__, rows.acl[made[places]].tolist())
        self._acls.update(zip(codes[places].tolist(), acls, strict=True))
        places = np.flatnonzero(written >= 0)
        values = rows.data.values_at(written[places])
        self._data.update(zip(codes[places].tolist(), values, strict=True))

    def settle(self, names: Sequence[str]) -> None:
        """Writes what was changed into the tree, and has nothing loaded any more."""
        tree = self._tree
        if tree is None:
            return
        changed = np.flatnonzero(self._is_loaded & (self._numbers[:, _CHANGED] != 0))
        nodes = tree.nodes_at([names[code] for code in changed.tolist()])
        of_changed = zip(changed.tolist(), nodes, self._numbers[changed].tolist(), strict=True)
        for code, old, fields in of_changed:
            is_new = code in self._acls
            if old is not None and (is_new or not fields[_IS_THERE]):
                tree.forget(names[code])
            if not fields[_IS_THERE]:
                continue
            node = old
            if is_new:
                times = fields[_CZXID], fields[_CTIME]
                node = tree.make(names[code], self._acls[code], fields[_OWNER], *times)
            assert node is not None
            _, node.mzxid, node.pzxid, _, node.mtime, node.version, node.cversion = fields[: _OWNER - 1]
            node.children, node.base, node.crc = fields[_CHILDREN:_IS_THERE]
            if code in self._data:
                node.data = self._data[code]
        self._numbers[:, _CHANGED] = 0
        self._is_loaded[:] = False
        self._acls.clear()
        self._data.clear()


def _places(rows: Stretch, paths: CompiledPaths) -> tuple[Numbers, Numbers, Numbers]:
    """The codes that rows touch, and for each row the places of its znode and of that above in them."""
    acts = rows.act > 0
    moves = (rows.act == MAKE) | (rows.act == DROP)
    parents = paths.parents[rows.path[moves]]
    if not acts.any() or (rows.path[acts] < 0).any() or (parents < 0).any():
        raise OddRowsError("nothing to apply, or a path that is missing")
    is_touched = np.zeros(len(paths.names), np.bool_)
    is_touched[rows.path[acts]] = True
    is_touched[parents] = True
    touched = np.flatnonzero(is_touched)
    place = np.cumsum(is_touched) - 1
    own, above = np.full(len(rows), -1), np.full(len(rows), -1)
    own[acts] = place[rows.path[acts]]
    above[moves] = place[parents]
    if (own[moves] == above[moves]).any():
        raise OddRowsError("a znode above itself")
    return touched, own, above
