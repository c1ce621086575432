"""Applies many records to a tree at once: `Tree.apply` and `Tree.has` in columns.

It applies plain records only: every znode that is set or deleted exists, every one that is created does not,
counts of creates rise, nothing is deleted with children, and the record of a session's end names all its
ephemerals. It refuses all others, with nothing done.
Needs numpy, pyarrow and the compiled kernel.

Sources: DataTree.java and DigestCalculator.java@3.9.4, as `tree` has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from zkgroup.zkfiles.arrow import Batch, Flags, Numbers, acls_of
from zkgroup.zkfiles.jute import kernel
from zkgroup.zkfiles.records import DELETES, Acl, TransactionType, lifetime_of
from zkgroup.zkfiles.tree import Compared, Node, Tree

COLUMNS: Final = (
    *("zxid", "sub", "session", "time", "type", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "parent_cversion", "acl", "applied", "digest"),
)
"""The columns of the batches that are applied."""

_NOTHING, _SET, _MAKE, _DROP, _GAIN, _LOSE = range(6)
"""The acts of a row: none, or it sets, creates or deletes a znode; and the acts on the znode above: a
child comes or goes. An event of a znode with `_NOTHING` is its state before all rows."""
_ODD: Final = -1
_CLOSE, _CREATE_SESSION = int(TransactionType.CLOSE_SESSION), int(TransactionType.CREATE_SESSION)
_ACTS: Final = {
    int(TransactionType.CREATE_SESSION): _NOTHING,
    int(TransactionType.CHECK): _NOTHING,
    int(TransactionType.SET_DATA): _SET,
    int(TransactionType.CREATE): _MAKE,
    int(TransactionType.CREATE2): _MAKE,
    **dict.fromkeys(map(int, DELETES), _DROP),
}
_FIRST_TYPE, _TYPES = -32, 96
_ACT_OF_TYPE: Final = np.array([_ACTS.get(kind + _FIRST_TYPE, _ODD) for kind in range(_TYPES)], np.int8)

_COUNTED: Final = np.dtype(
    [(name, ">i8") for name in ("czxid", "mzxid", "pzxid", "ctime", "mtime")]
    + [(name, ">i4") for name in ("version", "cversion", "aversion")]
    + [("owner", ">i8")]
)
"""The bytes of a znode's history that its digest is made from."""
_FIELDS: Final = (*(_COUNTED.names or ()), "children", "base", "crc")
"""The fields of a `Node` behind data and ACL."""
_numbers_of: Final = attrgetter(*_FIELDS)
_NOTHING_THERE: Final = (0,) * len(_FIELDS)
_NOT_COUNTED: Final = -1
_OUTSIDE: Final = "/zookeeper/"
_MOST_LEVELS: Final = 64
_MOST_CREATES: Final = 2**31 - 1


_Znodes = dict[str, Numbers]
"""The numbers of some znodes for each of `_FIELDS`, and for `is_there`."""


class OddRowsError(Exception):
    """The error for rows that only `tree` can apply."""


class ColumnReplay:
    """Applies records to a tree, many at a time.

    The changed znodes stay here, and get into the tree when `settle` is called. Until then nothing
    else may change the tree, and its znodes may not be read.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._paths = _Paths()
        self._znodes: _Znodes = {name: np.zeros(0, np.int64) for name in (*_FIELDS, "is_there")}
        self._is_loaded, self._is_changed = np.zeros((2, 0), np.bool_)
        self._data: dict[int, bytes | None] = {}
        self._acls: dict[int, Acl | None] = {}
        self._owned = Counter[int]()
        """The number of ephemerals that each session has beyond those in the tree."""

    def apply(
        self, batches: Sequence[Batch], first: int, last: int, is_known: Callable[[int], bool]
    ) -> Compared:
        """Applies all records from one zxid to another, from batches with `COLUMNS`.

        `is_known` returns whether the digest of a record, by zxid, is of the version that is computed here,
        which columns do not have. Raises OddRowsError, with nothing done, for rows that are not plain.
        """
        tree = self.tree
        if tree.has_orphans:
            raise OddRowsError("children of deleted znodes")
        rows = _Rows(batches, self._paths)
        steps = np.diff(rows.zxid)
        if not ((steps == 0) | (steps == 1)).all() or (rows.zxid[0], rows.zxid[-1]) != (first, last):
            raise OddRowsError("records without rows, or that cannot be read")
        touched, own, above = _places(rows, self._paths)
        replayed = _Replayed(rows, own, above, self._before(touched, first), self._paths)
        self._require_ends(rows, replayed.owners)
        total, compared = _compared(rows, replayed.changes, tree.digest)
        wrong = compared.first_wrong_zxid
        if wrong is not None and not (tree.keeps_charset(compared.wrong) and is_known(wrong)):
            raise OddRowsError("digests of another version, or paths in another charset")
        self._keep(touched, replayed, rows)
        rows.open_and_close(tree.sessions)
        tree.jump(last, int(rows.time_ms[-1]), total)
        return compared

    def settle(self) -> None:
        """Writes the changed znodes into the tree, and forgets all of them here."""
        codes = np.flatnonzero(self._is_changed)
        names = [self._paths.names[code] for code in codes.tolist()]
        columns = [numbers[codes].tolist() for numbers in self._znodes.values()]
        changed = zip(
            codes.tolist(), names, self.tree.nodes_at(names), zip(*columns, strict=True), strict=True
        )
        for code, name, old, (*numbers, is_there) in changed:
            if old is not None:
                self.tree.forget(name)
                self._data.setdefault(code, old.data)
                self._acls.setdefault(code, old.acl)
            if is_there:
                self.tree.put(name, Node(self._data[code], self._acls[code], *numbers))
        self._is_loaded[:] = self._is_changed[:] = False
        for known in (self._data, self._acls, self._owned):
            known.clear()

    def _before(self, codes: Numbers, first_zxid: int) -> _Znodes:
        """The numbers of some znodes before the rows; those that are not loaded come from the tree."""
        more = len(self._paths.names) - len(self._is_loaded)
        self._znodes = {name: _longer(numbers, more) for name, numbers in self._znodes.items()}
        self._is_loaded, self._is_changed = _longer(self._is_loaded, more), _longer(self._is_changed, more)
        new = codes[~self._is_loaded[codes]]
        nodes = self.tree.nodes_at([self._paths.names[code] for code in new.tolist()])
        if any(node is not None and node.base is None for node in nodes):
            raise OddRowsError("znodes that are not counted")
        numbers = [_NOTHING_THERE if node is None else _numbers_of(node) for node in nodes]
        for name, column in zip(_FIELDS, zip(*numbers, strict=True), strict=False):
            self._znodes[name][new] = column
        self._znodes["is_there"][new] = [node is not None for node in nodes]
        self._is_loaded[new] = True
        before = {name: numbers[codes] for name, numbers in self._znodes.items()}
        if (np.maximum(before["czxid"], before["pzxid"]) >= first_zxid).any():
            raise OddRowsError("znodes that are later than the records")
        return before

    def _require_ends(self, rows: _Rows, owners: Numbers) -> None:
        """Raises OddRowsError for the end of a session that did not name all its ephemerals."""
        closed = np.flatnonzero(rows.closes)
        last_rows = np.searchsorted(rows.zxid, rows.zxid[closed], "right") - 1
        ends = list(zip(last_rows.tolist(), rows.session[closed].tolist(), strict=True))
        left = {session: len(self.tree.ephemerals(session)) + self._owned[session] for _, session in ends}
        of_these = owners[:, np.isin(owners[0], list(left))]
        changes = [(row, session, sign) for session, row, sign in of_these.T.tolist()]
        for _, session, sign in sorted([*changes, *((row, session, 2) for row, session in ends)]):
            if sign != 2:
                left[session] += sign
            elif left[session]:
                raise OddRowsError("ephemerals that an end of a session does not name")

    def _keep(self, codes: Numbers, replayed: _Replayed, rows: _Rows) -> None:
        for name, numbers in self._znodes.items():
            numbers[codes] = replayed.znodes[name]
        self._is_changed[codes] = True
        is_there = replayed.znodes["is_there"] != 0
        made = np.flatnonzero(is_there & (replayed.made >= 0))
        acls = rows.acls_at(replayed.made[made], self.tree)
        self._acls.update(zip(codes[made].tolist(), acls, strict=True))
        written = np.flatnonzero(is_there & (replayed.wrote >= 0))
        written = written[np.argsort(replayed.wrote[written])]
        data = rows.data_at(replayed.wrote[written])
        self._data.update(zip(codes[written].tolist(), data, strict=True))
        owners, _, signs = replayed.owners
        self._owned.update(owners[signs > 0].tolist())
        self._owned.subtract(owners[signs < 0].tolist())


def _longer(values: Numbers, more: int) -> Numbers:
    return np.concatenate((values, np.zeros(more, values.dtype)))


class _Paths(dict[str | None, int]):
    """A number for each path, which it gets, with the paths above it, at its first use.

    It is negative for None, for the root, and for paths that are not counted.
    """

    def __init__(self) -> None:
        super().__init__({None: _NOT_COUNTED, "/": _NOT_COUNTED})
        self.names: list[str] = []
        self.parents: Numbers = np.zeros(0, np.int64)
        self.crcs: Numbers = np.zeros(0, np.int64)
        """The CRCs of the bytes of the paths."""
        self._parents: list[int] = []

    def codes_of(self, paths: Iterable[str | None]) -> Numbers:
        codes = np.array([self[path] for path in paths], np.int64)
        known = len(self.parents)
        crcs = [crc32(name.encode()) for name in self.names[known:]]
        self.parents = np.append(self.parents, np.array(self._parents[known:], np.int64))
        self.crcs = np.append(self.crcs, np.array(crcs, np.int64))
        return codes

    def __missing__(self, path: str) -> int:
        code = _NOT_COUNTED
        if path.count("/") <= _MOST_LEVELS and not path.startswith(_OUTSIDE):
            parent = self[path.rpartition("/")[0]] if path else _NOT_COUNTED
            code = len(self.names)
            self.names.append(path)
            self._parents.append(parent)
        self[path] = code
        return code


class _Rows:
    """The rows of whole records in order. Raises OddRowsError for records of rare kinds."""

    def __init__(self, batches: Sequence[Batch], paths: _Paths) -> None:
        if not all(batch.is_plain for batch in batches):
            raise OddRowsError("records that the kernel does not decode")
        self._batches = batches
        self.zxid, self.session, self.time_ms = (self._numbers(name) for name in ("zxid", "session", "time"))
        self.version, self.digest = self._numbers("version"), self._numbers("digest")
        kind, is_whole = self._numbers("type"), self._numbers("sub") < 0
        applied = self._numbers("applied") != 0
        self.has_digest = self._present("digest")
        self.opens, self.closes = kind == _CREATE_SESSION, (kind == _CLOSE) & is_whole
        if not (self.has_digest | ~applied | self.opens).all():
            raise OddRowsError("a record without a digest")
        self.act = _acts(kind, is_whole, applied)
        self.count = np.where(self._present("parent_cversion"), self._numbers("parent_cversion"), -1)
        """The parent's count of creates after a create; -1 where the record does not have it."""
        self.is_ephemeral = np.concatenate([_is_ephemeral(batch) for batch in batches])
        found = pa.concat_arrays(self._arrays("path")).dictionary_encode("encode")
        self.path: Numbers = paths.codes_of(found.dictionary.to_pylist())[found.indices.to_numpy()]

    def __len__(self) -> int:
        return len(self.zxid)

    def _arrays(self, name: str) -> list[Any]:
        return [batch.arrays[name] for batch in self._batches]

    def _numbers(self, name: str) -> Numbers:
        whole = pa.concat_arrays(self._arrays(name))
        values: Numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy(zero_copy_only=False)
        return values.astype(np.int64, copy=False)

    def _present(self, name: str) -> Flags:
        present: Flags = pa.concat_arrays(self._arrays(name)).is_valid().to_numpy(zero_copy_only=False)
        return present

    def open_and_close(self, sessions: dict[int, int]) -> None:
        """Opens and closes sessions among those of a tree."""
        rows = np.flatnonzero(self.opens | self.closes)
        timeouts = np.where(self.opens, self._numbers("timeout_ms"), -1)[rows]
        for session, timeout in zip(self.session[rows].tolist(), timeouts.tolist(), strict=True):
            if timeout < 0:
                sessions.pop(session, None)
            else:
                sessions[session] = timeout

    def data_crcs(self, seeds: Numbers) -> Numbers:
        """The CRC of each row's data, continued from that of its path; null counts as empty."""
        sums, start = np.empty(len(self), np.int64), 0
        for batch in self._batches:
            _, offsets, values = batch.arrays["data"].buffers()
            end = start + batch.rows
            kernel().crcs(values or b"", offsets, seeds[start:end], sums[start:end])
            start = end
        return sums

    def data_at(self, rows: Numbers) -> Iterator[bytes | None]:
        """The data of some rows, in their order."""
        ends = np.cumsum([batch.rows for batch in self._batches])
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        for array, start, some in zip(self._arrays("data"), [0, *ends], parts, strict=False):
            yield from array.take(pa.array(some - start)).to_pylist()

    def acls_at(self, rows: Numbers, tree: Tree) -> list[Acl | None]:
        """The ACLs of some rows, as objects of the tree; an empty one for null."""
        arrays = self._arrays("acl")
        acls = [tree.same_acl(acl or ()) for array in arrays for acl in acls_of(array)]
        firsts = np.cumsum([0, *(len(array.dictionary) for array in arrays[:-1])])
        codes = np.concatenate(
            [array.indices.to_numpy() + first for array, first in zip(arrays, firsts, strict=True)]
        )
        return [acls[code] for code in codes[rows].tolist()]


def _acts(kind: Numbers, is_whole: Flags, applied: Flags) -> Numbers:
    if ((kind < _FIRST_TYPE) | (kind >= _FIRST_TYPE + _TYPES)).any():
        raise OddRowsError("a type that no version knows")
    act: Numbers = _ACT_OF_TYPE[kind - _FIRST_TYPE]
    closes = kind == _CLOSE
    act[closes] = np.where(is_whole[closes], _NOTHING, _DROP)
    act[~applied] = _NOTHING
    if (act == _ODD).any():
        raise OddRowsError("a record of a rare kind")
    return act


def _is_ephemeral(batch: Batch) -> Flags:
    array = batch.arrays["ephemeral"]
    is_session = [value == "session" for value in array.dictionary.to_pylist()]
    flags: Flags = np.array(is_session, np.bool_)[array.indices.to_numpy()]
    return flags


def _places(rows: _Rows, paths: _Paths) -> tuple[Numbers, Numbers, Numbers]:
    """The codes that rows touch, and for each row the places in them of its znode and of the znode above."""
    acts = rows.act > 0
    moves = (rows.act == _MAKE) | (rows.act == _DROP)
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


class _Events:
    """The events of each znode, one after the other: first its state before, then each row about it."""

    def __init__(self, rows: _Rows, own: Numbers, above: Numbers, before: _Znodes) -> None:
        acts = np.flatnonzero(rows.act > 0)
        moves = acts[rows.act[acts] != _SET]
        self.znodes = np.arange(len(before["crc"]))
        node = np.concatenate((self.znodes, own[acts], above[moves]))
        row = np.concatenate((self.znodes * 0 - 1, acts, moves))
        child = np.where(rows.act[moves] == _MAKE, _GAIN, _LOSE)
        kind = np.concatenate((self.znodes * 0 + _NOTHING, rows.act[acts], child))
        order = np.argsort(node * (len(rows) + 1) + row + 1)
        self.row, self.kind = row[order], kind[order].astype(np.int8)
        self.begins: Flags = self.kind == _NOTHING
        self.ends: Flags = np.append(self.begins[1:], True)
        self._before = before
        self._places = np.arange(len(order))
        self._source = np.where(self.begins, node[order], self.row + len(self.znodes))
        """The source of each event: the place of a znode, or, counted on from these, a row."""

    def last(self, *kinds: int) -> Numbers:
        """The place, for each event, of the last one of these kinds, or of the beginning."""
        is_one = np.zeros(_LOSE + 1, np.bool_)
        is_one[[_NOTHING, *kinds]] = True
        found: Numbers = np.maximum.accumulate(np.where(is_one[self.kind], self._places, 0))
        return found

    def sources(self, *kinds: int) -> Numbers:
        """The sources of these last events."""
        found: Numbers = self._source[self.last(*kinds)]
        return found

    def field(self, name: str, sources: Numbers, of_rows: Numbers) -> Numbers:
        """The values of a field behind each event, where rows have these values."""
        found: Numbers = np.concatenate((self._before[name], of_rows))[sources]
        return found


class _Replayed:
    """The effects of the rows on znodes. Raises OddRowsError for rows that are not plain."""

    def __init__(self, rows: _Rows, own: Numbers, above: Numbers, before: _Znodes, paths: _Paths) -> None:
        events = _Events(rows, own, above, before)
        row, kind, begins = events.row, events.kind, events.begins
        made, written = events.sources(_MAKE), events.sources(_SET, _MAKE)
        moved, lived = events.sources(_MAKE, _GAIN, _LOSE), events.sources(_MAKE, _DROP)
        nothing = np.zeros(len(rows), np.int64)
        fields = {
            "czxid": events.field("czxid", made, rows.zxid),
            "mzxid": events.field("mzxid", written, rows.zxid),
            "pzxid": events.field("pzxid", moved, rows.zxid),
            "ctime": events.field("ctime", made, rows.time_ms),
            "mtime": events.field("mtime", written, rows.time_ms),
            "version": events.field("version", written, np.where(rows.act == _SET, rows.version, 0)),
            "cversion": _creates(rows, events, before["cversion"]),
            "aversion": events.field("aversion", made, nothing),
            "owner": events.field("owner", made, np.where(rows.is_ephemeral, rows.session, 0)),
            "children": _children(events, before["children"]),
            "base": events.field("base", written, rows.data_crcs(paths.crcs[rows.path])),
            "is_there": events.field("is_there", lived, rows.act == _MAKE),
        }
        _require_plain(kind, fields)
        crcs = fields["crc"] = _crcs(fields, begins, before)
        self.znodes: _Znodes = {name: field[events.ends] for name, field in fields.items()}
        """The znodes after the rows."""
        self.made: Numbers = made[events.ends] - len(events.znodes)
        self.wrote: Numbers = written[events.ends] - len(events.znodes)
        """The rows that made and last wrote each, negative for none."""
        self.changes = np.zeros(len(rows), np.int64)
        """The change of the tree's digest by each row."""
        changed = np.flatnonzero(~begins)
        np.add.at(self.changes, row[changed], crcs[changed] - crcs[changed - 1])
        owned = np.flatnonzero(((kind == _MAKE) | (kind == _DROP)) & (fields["owner"] != 0))
        signs = np.where(kind[owned] == _MAKE, 1, -1)
        self.owners: Numbers = np.stack((fields["owner"][owned], row[owned], signs))
        """The session, the row, and 1 or -1, for each ephemeral that came or went."""


def _creates(rows: _Rows, events: _Events, before: Numbers) -> Numbers:
    kind, count = events.kind, rows.count[events.row]
    is_next = (kind == _GAIN) & (count == -1)
    is_known = events.begins | (kind == _MAKE) | ((kind == _GAIN) & ~is_next)
    known = np.maximum.accumulate(np.where(is_known, np.arange(len(kind)), 0))
    counts = np.where(kind == _GAIN, count, 0)
    counts[events.begins] = before
    nexts = np.cumsum(is_next)
    found: Numbers = counts[known] + nexts - nexts[known]
    return found


def _children(events: _Events, before: Numbers) -> Numbers:
    change = (events.kind == _GAIN) * 1 - (events.kind == _LOSE)
    change[events.begins] = before
    sums = np.cumsum(change)
    found: Numbers = sums - (sums - change)[events.last()]
    return found


def _require_plain(kind: Numbers, fields: _Znodes) -> None:
    """Raises OddRowsError for events whose rules are only in `tree`."""
    later, creates, owners = kind[1:], fields["cversion"], fields["owner"]
    odd = (later != _NOTHING) & ((fields["is_there"][:-1] != 0) == (later == _MAKE))
    odd |= (later == _DROP) & (fields["children"][:-1] != 0)
    odd |= (later == _GAIN) & ((creates[1:] <= creates[:-1]) | (creates[1:] >= _MOST_CREATES))
    made = np.unique(owners[(kind == _MAKE) & (owners != 0)])
    if odd.any() or not all(lifetime_of(owner) == "session" for owner in made.tolist()):
        raise OddRowsError("records that are not plain")


def _crcs(fields: _Znodes, begins: Flags, before: _Znodes) -> Numbers:
    """The part of the znode in the digest behind each event."""
    crcs = np.zeros(len(begins), np.int64)
    crcs[begins] = before["crc"]
    counted = np.flatnonzero(~begins & (fields["is_there"] != 0))
    history = np.empty(len(counted), _COUNTED)
    for name in _COUNTED.names or ():
        history[name] = fields[name][counted]
    sums, bounds = np.empty(len(counted), np.int64), np.arange(len(counted) + 1, dtype=np.int32)
    kernel().crcs(history, bounds * _COUNTED.itemsize, fields["base"][counted], sums)
    crcs[counted] = sums
    return crcs


def _compared(rows: _Rows, changes: Numbers, digest: int) -> tuple[int, Compared]:
    """The digest behind the last row, and the comparison of the records' digests."""
    sums = np.cumsum(changes) + digest
    ends = np.flatnonzero(np.append(rows.zxid[1:] != rows.zxid[:-1], True))
    digests = ends[rows.has_digest[ends]]
    wrong = digests[sums[digests] != rows.digest[digests]]
    first_wrong = int(rows.zxid[wrong[0]]) if len(wrong) else None
    return int(sums[-1]), Compared(len(ends), len(digests), len(wrong), first_wrong)
