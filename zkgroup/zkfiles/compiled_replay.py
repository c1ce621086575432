"""Applies many records to a tree at once, by the compiled kernel: `Tree.apply` and `Tree.has` in columns.

Only what is plain is done here: every znode that is set or deleted is there, every one that is made is not,
counts of creates rise, nothing is deleted with children, and the record of a session's end names all its
ephemerals. Anything else is refused with nothing done, for the kernel changes a copy of the znodes' numbers.
The numbers stay here from stretch to stretch, and come into the tree when `settle` is called.
Importing it raises ImportError where the kernel was not built or is switched off, and without numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np

from zkgroup.zkfiles import compiled as compiled  # for its switch
from zkgroup.zkfiles import tree_kernel
from zkgroup.zkfiles.batches import Batch, Slices
from zkgroup.zkfiles.records import Acl
from zkgroup.zkfiles.stretches import DROP, MAKE, SET, Compared, Flags, Numbers, OddRowsError, Stretch
from zkgroup.zkfiles.tree import Tree

_FIELDS: Final = (
    *("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "owner", "children"),
    *("base", "crc"),
)
"""Of a znode, in the kernel's order; then whether it is there, the rows that made and wrote it, and whether
it was changed."""
_IS_THERE, _MADE, _WRITTEN, _CHANGED = range(len(_FIELDS), len(_FIELDS) + 4)
_CZXID, _PZXID, _CTIME, _OWNER, _CHILDREN = 0, 2, 3, 8, 9
_NOTHING: Final = (0,) * len(_FIELDS)
_numbers_of: Final = attrgetter(*_FIELDS)
_SEED: Final = hash("zkgroup") >> 1
"""Another one in each process, so that nobody can write paths that share a place."""


class CompiledPaths:
    """A number for each path of a replay, with that of its parent, the CRC of its bytes, and its znode.

    Negative for none, for the root, and for paths that are not counted.
    """

    def __init__(self) -> None:
        self._table = tree_kernel.Paths(_SEED)
        self.names: list[str] = []
        self.parents: Numbers = np.empty(0, np.int64)
        self.crcs: Numbers = np.empty(0, np.uint32)
        self._znodes = _Znodes()

    def codes_of(self, batches: Sequence[Batch]) -> Numbers:
        """Of the paths of batches."""
        codes = np.empty(sum(batch.rows for batch in batches), np.int64)
        start = 0
        for batch in batches:
            paths = _slices(batch, "path")
            self._table.codes(paths.raw, paths.bounds, paths.present, codes[start : start + batch.rows])
            start += batch.rows
        self._learn()
        return codes

    def data_of(self, batches: Sequence[Batch]) -> Sequence[bytes | None]:
        """The column `data`."""
        return DataOf(batches)

    def apply(self, tree: Tree, rows: Stretch) -> Compared:
        """Takes the next records. Raises OddRowsError, with nothing done, for what is not plain."""
        if tree.has_orphans:
            raise OddRowsError("children of deleted znodes")
        touched, own, above = _places(rows, self)
        sessions = np.unique(rows.session[list(rows.closed)])
        codes = np.concatenate((touched, self._ephemerals(tree, sessions)))
        znodes = self._znodes
        znodes.load(tree, self.names, codes)
        numbers = znodes.before(touched, int(rows.zxid[0]))
        columns = _columns(rows, own, above, self)
        found = tree_kernel.replay(columns, numbers, sessions, znodes.owned(sessions), tree.digest)
        if found is None:
            raise OddRowsError("records that are not plain")
        records, digests, wrong, first_wrong, total = found
        if wrong and not tree.keeps_charset(wrong):
            raise OddRowsError("paths in another charset")
        znodes.keep(touched, numbers, rows)
        rows.tell_sessions(tree.sessions)
        tree.jump(int(rows.zxid[-1]), int(rows.time_ms[-1]), total)
        return Compared(records, digests, wrong, first_wrong if wrong else None)

    def settle(self) -> None:
        """Brings the tree to what `apply` made of it; before that its znodes are those of earlier."""
        self._znodes.settle(self.names)

    def _ephemerals(self, tree: Tree, sessions: Numbers) -> Numbers:
        """The codes of what the tree has of these sessions."""
        names = [name for session in sessions.tolist() for name in tree.ephemerals(session)]
        if not all(map(str.isascii, names)):
            raise OddRowsError("an ephemeral beyond ASCII")
        bounds = np.cumsum([0, *map(len, names)])
        pairs = np.stack((bounds[:-1], bounds[1:]), axis=1).astype(np.int32)
        codes = np.empty(len(names), np.int64)
        self._table.codes("".join(names).encode(), pairs, None, codes)
        self._learn()
        if (codes < 0).any():
            raise OddRowsError("an ephemeral that is not counted")
        return codes

    def _learn(self) -> None:
        new = self._table.paths_from(len(self.names))
        if new:
            names, parents, crcs = zip(*new, strict=True)
            self.names += names
            self.parents = np.concatenate((self.parents, np.array(parents, np.int64)))
            self.crcs = np.concatenate((self.crcs, np.array(crcs, np.uint32)))


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
        """How many znodes of each session are there."""
        if not len(sessions):
            return np.zeros(0, np.int64)
        is_owned = self._is_loaded & (self._numbers[:, _IS_THERE] != 0) & (self._numbers[:, _OWNER] != 0)
        owners = np.sort(self._numbers[is_owned, _OWNER])
        counts: Numbers = np.searchsorted(owners, sessions, "right") - np.searchsorted(owners, sessions)
        return counts.astype(np.int64)

    def keep(self, codes: Numbers, numbers: Numbers, rows: Stretch) -> None:
        """What the kernel made of them."""
        changed = self._numbers[codes, _CHANGED] | numbers[:, _CHANGED]
        self._numbers[codes] = numbers
        self._numbers[codes, _CHANGED] = changed
        made, written = numbers[:, _MADE], numbers[:, _WRITTEN]
        places = np.flatnonzero(made >= 0)
        acls = map(rows.acls.__getitem__, rows.acl[made[places]].tolist())
        self._acls.update(zip(codes[places].tolist(), acls, strict=True))
        places = np.flatnonzero(written >= 0)
        assert isinstance(rows.data, DataOf)
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


class DataOf(Sequence[bytes | None]):
    """The column `data` of batches: a value is copied when it is asked for."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._slices = [_slices(batch, "data") for batch in batches]
        self._ends: Numbers = np.cumsum([batch.rows for batch in batches])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, row: Any) -> Any:
        (value,) = self.values_at(np.array([row]))
        return value

    def values_at(self, rows: Numbers) -> list[bytes | None]:
        """The values of some rows."""
        values: list[bytes | None] = [None] * len(rows)
        numbers = np.searchsorted(self._ends, rows, "right")
        for number in np.unique(numbers).tolist():
            pieces = self._slices[number]
            places = np.flatnonzero(numbers == number)
            inside = rows[places] - (self._ends[number - 1] if number else 0)
            if pieces.present is not None:
                is_there = pieces.present[inside]
                places, inside = places[is_there], inside[is_there]
            bounds = pieces.bounds.reshape(-1, 2)[inside].tolist()
            for place, (start, end) in zip(places.tolist(), bounds, strict=True):
                values[place] = pieces.raw[start:end]
        return values

    def crcs(self, codes: Numbers, seeds: Numbers) -> Numbers:
        """Of each row the CRC of its path and data; 0 for rows with a negative code."""
        sums = np.empty(len(codes), np.int64)
        start = 0
        for pieces, end in zip(self._slices, self._ends.tolist(), strict=True):
            tree_kernel.data_crcs(
                pieces.raw, pieces.bounds, pieces.present, codes[start:end], seeds, sums[start:end]
            )
            start = end
        return sums


def _slices(batch: Batch, name: str) -> Slices:
    packed = batch.packed(name)
    if not isinstance(packed, Slices):
        raise OddRowsError("columns in lists")
    return packed


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
    return touched, own, above


def _columns(rows: Stretch, own: Numbers, above: Numbers, paths: CompiledPaths) -> Numbers:
    """In the kernel's order."""
    assert isinstance(rows.data, DataOf)
    writes = (rows.act == SET) | (rows.act == MAKE)
    closes = np.zeros(len(rows), np.int64)
    closes[list(rows.closed)] = 1
    return np.stack(
        (
            *(rows.zxid, rows.session, rows.time_ms, rows.act, own, above),
            *(rows.version, rows.is_ephemeral, rows.count, rows.digest, rows.has_digest),
            rows.data.crcs(np.where(writes, rows.path, -1), paths.crcs),
            closes,
        ),
        dtype=np.int64,
        casting="unsafe",
    )
