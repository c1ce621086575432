"""Applies many records to a tree at once: `Tree.apply` and `Tree.has` in columns.

Only what is plain is done here: every znode that is set or deleted is there, every one that is made is not,
counts of creates rise, nothing is deleted with children, and the record of a session's end names all its
ephemerals. Anything else is refused with nothing done.
Needs numpy and pyarrow.

Sources: DataTree.java and DigestCalculator.java@3.9.4, as `tree` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa

from zkgroup.zkfiles.arrow import Batch, Flags, Numbers, acls_of
from zkgroup.zkfiles.records import DELETES, Acl, TransactionType, lifetime_of
from zkgroup.zkfiles.tree import Compared, Node, Tree

COLUMNS: Final = (
    *("zxid", "sub", "session", "time", "type", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "parent_cversion", "acl", "applied", "digest"),
)
"""Those of the batches that are applied."""

_NOTHING, _SET, _MAKE, _DROP, _GAIN, _LOSE = range(6)
"""The acts of a row: nothing to the tree, or it sets, makes or deletes a znode. Then what happens to the
znode above: a child comes or goes. To a znode itself `_NOTHING` is how it was before all rows."""
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
"""The bytes of a znode's history of which its digest is made."""
_FIELDS: Final = (*(_COUNTED.names or ()), "children", "base", "crc")
"""Those of a `Node` behind data and ACL; then `is_there`, and the rows that `made` and `wrote` it, -1 for
none."""
_numbers_of: Final = attrgetter(*_FIELDS)
_NOT_COUNTED: Final = -1
_OUTSIDE: Final = "/zookeeper/"
_MOST_LEVELS: Final = 64
_MOST_CREATES: Final = 2**31 - 1


_Znodes = dict[str, Numbers]
"""For each of these names the numbers of some znodes."""


class OddRowsError(Exception):
    """Only the exact reader knows what these rows do."""


def apply_rows(
    tree: Tree, batches: Sequence[Batch], first: int, last: int, is_known: Callable[[int], bool]
) -> Compared:
    """Applies all records from one zxid to another: batches with `COLUMNS`.

    `is_known` says whether the digest of a record, by its zxid, is of the version that is computed here,
    which columns do not say. Raises OddRowsError, with nothing done, for what is not plain.
    """
    if tree.has_orphans:
        raise OddRowsError("children of deleted znodes")
    rows = _Rows(batches)
    steps = np.diff(rows.zxid)
    if not ((steps == 0) | (steps == 1)).all() or (rows.zxid[0], rows.zxid[-1]) != (first, last):
        raise OddRowsError("records without rows, or that cannot be read")
    touched, own, above = _places(rows)
    names = [rows.paths.names[code] for code in touched.tolist()]
    nodes = tree.nodes_at(names)
    znodes, changes, owners = _replayed(rows, own, above, _before(nodes, first))
    _require_ends(rows, owners, tree)
    total, compared = _compared(rows, changes, tree.digest)
    wrong = compared.first_wrong_zxid
    if wrong is not None and not (tree.keeps_charset(compared.wrong) and is_known(wrong)):
        raise OddRowsError("digests of another version, or paths in another charset")
    _write_back(tree, names, nodes, znodes, rows)
    rows.tell_sessions(tree.sessions)
    tree.jump(last, int(rows.time_ms[-1]), total)
    return compared


class _Paths:
    """A number for each path of some rows, with that of its parent and the CRC of its bytes.

    Negative for none, for the root, and for paths that are not counted.
    """

    def __init__(self, found: Iterable[str | None]) -> None:
        self._codes: dict[str | None, int] = {}
        self.names: list[str] = []
        self._parents: list[int] = []
        self.codes: Numbers = np.array([self._code_of(name) for name in found], np.int64)
        """Of the paths that were found."""
        self.parents: Numbers = np.array(self._parents, np.int64)
        self.crcs: Numbers = np.array([crc32(name.encode()) for name in self.names], np.int64)

    def _code_of(self, path: str | None) -> int:
        """The code of a path; those above it get one too."""
        known = self._codes.get(path)
        if known is not None:
            return known
        code = _NOT_COUNTED
        if (
            path is not None
            and path != "/"
            and path.count("/") <= _MOST_LEVELS
            and not path.startswith(_OUTSIDE)
        ):
            parent = self._code_of(path.rpartition("/")[0]) if path else _NOT_COUNTED
            code = len(self.names)
            self.names.append(path)
            self._parents.append(parent)
        self._codes[path] = code
        return code


class _Rows:
    """Rows of whole records in order. Raises OddRowsError for records of rare kinds."""

    def __init__(self, batches: Sequence[Batch]) -> None:
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
        """Of a create: the parent's count of creates after it; -1 where the record does not have it."""
        self.is_ephemeral = np.concatenate([_is_ephemeral(batch) for batch in batches])
        self.has_data = self._present("data")
        found = pa.concat_arrays(self._arrays("path")).dictionary_encode("encode")
        self.paths = _Paths(found.dictionary.to_pylist())
        self.path = self.paths.codes[found.indices.to_numpy()]

    def __len__(self) -> int:
        return len(self.zxid)

    def _arrays(self, name: str) -> list[Any]:
        return [batch.arrays[name] for batch in self._batches]

    def _numbers(self, name: str) -> Numbers:
        """Null is 0."""
        whole = pa.concat_arrays(self._arrays(name))
        values: Numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy(zero_copy_only=False)
        return values.astype(np.int64)

    def _present(self, name: str) -> Flags:
        present: Flags = pa.concat_arrays(self._arrays(name)).is_valid().to_numpy(zero_copy_only=False)
        return present

    def tell_sessions(self, sessions: dict[int, int]) -> None:
        """Opens and closes sessions among those of a tree."""
        rows = np.flatnonzero(self.opens | self.closes)
        timeouts = np.where(self.opens, self._numbers("timeout_ms"), -1)[rows]
        for session, timeout in zip(self.session[rows].tolist(), timeouts.tolist(), strict=True):
            if timeout < 0:
                sessions.pop(session, None)
            else:
                sessions[session] = timeout

    def data_at(self, rows: Numbers) -> Iterator[bytes]:
        """The data of some rows, in their order; each is copied when its turn comes, and null is empty."""
        ends = np.cumsum([batch.rows for batch in self._batches])
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        for array, start, some in zip(self._arrays("data"), [0, *ends], parts, strict=False):
            _, offsets, values = array.buffers()
            raw, bounds = values.to_pybytes() if values else b"", np.frombuffer(offsets, np.int32)
            inside = some - start
            yield from map(raw.__getitem__, map(slice, bounds[inside].tolist(), bounds[inside + 1].tolist()))

    def acls_at(self, rows: Numbers, tree: Tree) -> list[Acl | None]:
        """The ACLs of some rows, as the tree has them; none is an empty one."""
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


def _crcs_of(pieces: Iterable[bytes], seeds: Numbers) -> Numbers:
    """The CRC of each piece, behind that of what was before it."""
    return np.fromiter(map(crc32, pieces, seeds.tolist()), np.int64, len(seeds))


def _places(rows: _Rows) -> tuple[Numbers, Numbers, Numbers]:
    """The codes that rows touch, and for each row the places of its znode and of that above in them."""
    paths, acts = rows.paths, rows.act > 0
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


def _before(nodes: Sequence[Node | None], first_zxid: int) -> _Znodes:
    """The numbers of some znodes before the rows."""
    if any(node is not None and node.base is None for node in nodes):
        raise OddRowsError("znodes that are not counted")
    nothing = (0,) * len(_FIELDS)
    fields = np.array([nothing if node is None else _numbers_of(node) for node in nodes], np.int64)
    znodes = dict(zip(_FIELDS, fields.T, strict=True))
    znodes["is_there"] = np.array([node is not None for node in nodes])
    znodes["made"] = znodes["wrote"] = np.full(len(nodes), -1)
    if (np.maximum(znodes["czxid"], znodes["pzxid"]) >= first_zxid).any():
        raise OddRowsError("znodes that are later than the records")
    return znodes


class _Events:
    """The events of each znode, one after the other: first what it was, then each row about it."""

    def __init__(self, rows: _Rows, own: Numbers, above: Numbers, before: _Znodes) -> None:
        acts = np.flatnonzero(rows.act > 0)
        moves = acts[rows.act[acts] != _SET]
        count = len(before["crc"])
        node = np.concatenate((np.arange(count), own[acts], above[moves]))
        row = np.concatenate((np.full(count, -1), acts, moves))
        child = np.where(rows.act[moves] == _MAKE, _GAIN, _LOSE)
        kind = np.concatenate((np.full(count, _NOTHING), rows.act[acts], child))
        order = np.argsort(node * (len(rows) + 1) + row + 1)
        self.row, self.kind = row[order], kind[order]
        self._before = before
        self._places = np.arange(len(order))
        self.begins: Flags = self.kind == _NOTHING
        self.ends: Flags = np.append(self.begins[1:], True)

    def last(self, *kinds: int) -> Numbers:
        """For each event the place of the last one of these kinds, or of the beginning."""
        is_one = self.begins | np.isin(self.kind, kinds)
        found: Numbers = np.maximum.accumulate(np.where(is_one, self._places, 0))
        return found

    def field(self, name: str, last: Numbers, values: Any) -> Numbers:
        """The values of a field behind each event, where events at `last` give it these."""
        found = np.empty(len(self.row), np.int64)
        found[:] = values
        found[self.begins] = self._before[name]
        return found[last]


def _replayed(rows: _Rows, own: Numbers, above: Numbers, before: _Znodes) -> tuple[_Znodes, Numbers, Numbers]:
    """The znodes after the rows, how each row changed the digest, and the rows that concern ephemerals.

    Of these the session, the row, and 1 or -1. Raises OddRowsError for what is not plain.
    """
    events = _Events(rows, own, above, before)
    row, kind, begins = events.row, events.kind, events.begins
    zxid, ms, places = rows.zxid[row], rows.time_ms[row], np.arange(len(row))
    made, written = events.last(_MAKE), events.last(_SET, _MAKE)
    owner = np.where(rows.is_ephemeral[row], rows.session[row], 0)
    version = np.where(kind == _SET, rows.version[row], 0)
    count = np.where(kind == _GAIN, rows.count[row], 0)
    is_next = (kind == _GAIN) & (count == -1)
    told = np.maximum.accumulate(np.where(begins | (kind == _MAKE) | (kind == _GAIN) & ~is_next, places, 0))
    nexts = np.cumsum(is_next)
    creates = events.field("cversion", told, count) + nexts - nexts[told]
    change = events.field("children", places, (kind == _GAIN) * 1 - (kind == _LOSE))
    children = np.cumsum(change)
    children -= (children - change)[events.last()]
    writes = np.flatnonzero((rows.act == _SET) | (rows.act == _MAKE))
    sums = np.zeros(len(rows), np.int64)
    sums[writes] = _crcs_of(rows.data_at(writes), rows.paths.crcs[rows.path[writes]])
    fields = {
        "czxid": events.field("czxid", made, zxid),
        "mzxid": events.field("mzxid", written, zxid),
        "pzxid": events.field("pzxid", events.last(_MAKE, _GAIN, _LOSE), zxid),
        "ctime": events.field("ctime", made, ms),
        "mtime": events.field("mtime", written, ms),
        "version": events.field("version", written, version),
        "cversion": creates,
        "aversion": events.field("aversion", made, 0),
        "owner": events.field("owner", made, owner),
        "children": children,
        "base": events.field("base", written, sums[row]),
        "is_there": events.field("is_there", events.last(_MAKE, _DROP), kind == _MAKE),
        "made": events.field("made", made, row),
        "wrote": events.field("wrote", written, row),
    }
    _require_plain(kind, fields)
    crcs = fields["crc"] = _crcs(fields, begins, before)
    changed = np.flatnonzero(~begins)
    changes = crcs[changed] - crcs[changed - 1]
    of_parents = kind[changed] > _DROP
    digest = np.zeros(len(rows), np.int64)
    digest[row[changed[~of_parents]]] = changes[~of_parents]
    digest[row[changed[of_parents]]] += changes[of_parents]
    owned = np.flatnonzero(((kind == _MAKE) | (kind == _DROP)) & (fields["owner"] != 0))
    signs = np.where(kind[owned] == _MAKE, 1, -1)
    owners = np.stack((fields["owner"][owned], row[owned], signs))
    return {name: field[events.ends] for name, field in fields.items()}, digest, owners


def _require_plain(kind: Numbers, fields: _Znodes) -> None:
    """Raises OddRowsError for events that only `tree` knows the rules for."""
    later, creates, owners = kind[1:], fields["cversion"], fields["owner"]
    odd = (later != _NOTHING) & ((fields["is_there"][:-1] != 0) == (later == _MAKE))
    odd |= (later == _DROP) & (fields["children"][:-1] != 0)
    odd |= (later == _GAIN) & ((creates[1:] <= creates[:-1]) | (creates[1:] >= _MOST_CREATES))
    made = np.unique(owners[(kind == _MAKE) & (owners != 0)])
    if odd.any() or not all(lifetime_of(owner) == "session" for owner in made.tolist()):
        raise OddRowsError("records that are not plain")


def _crcs(fields: _Znodes, begins: Flags, before: _Znodes) -> Numbers:
    """The part of the digest that each znode has behind each event."""
    crcs = np.zeros(len(begins), np.int64)
    crcs[begins] = before["crc"]
    counted = np.flatnonzero(~begins & (fields["is_there"] != 0))
    history = np.empty(len(counted), _COUNTED)
    for name in _COUNTED.names or ():
        history[name] = fields[name][counted]
    crcs[counted] = _crcs_of(history.view(f"V{_COUNTED.itemsize}").tolist(), fields["base"][counted])
    return crcs


def _require_ends(rows: _Rows, owners: Numbers, tree: Tree) -> None:
    """Raises OddRowsError for the end of a session that did not name all its ephemerals."""
    closed = np.flatnonzero(rows.closes)
    last_rows = np.searchsorted(rows.zxid, rows.zxid[closed], "right") - 1
    ends = list(zip(last_rows.tolist(), rows.session[closed].tolist(), strict=True))
    left = {session: len(tree.ephemerals(session)) for _, session in ends}
    changes = [(row, session, sign) for session, row, sign in owners.T.tolist() if session in left]
    for _, session, sign in sorted([*changes, *((row, session, 2) for row, session in ends)]):
        if sign != 2:
            left[session] += sign
        elif left[session]:
            raise OddRowsError("ephemerals that an end of a session does not name")


def _compared(rows: _Rows, changes: Numbers, digest: int) -> tuple[int, Compared]:
    """The digest behind the last row, and how those of the records compare with what they should be."""
    sums = np.cumsum(changes) + digest
    ends = np.flatnonzero(np.append(rows.zxid[1:] != rows.zxid[:-1], True))
    told = ends[rows.has_digest[ends]]
    wrong = told[sums[told] != rows.digest[told]]
    first_wrong = int(rows.zxid[wrong[0]]) if len(wrong) else None
    return int(sums[-1]), Compared(len(ends), len(told), len(wrong), first_wrong)


def _write_back(
    tree: Tree, names: Sequence[str], nodes: Sequence[Node | None], znodes: _Znodes, rows: _Rows
) -> None:
    """Brings the tree to what the rows made of some znodes."""
    is_there, wrote = znodes["is_there"] != 0, znodes["wrote"]
    made = np.flatnonzero(is_there & (znodes["made"] >= 0))
    acls = dict(zip(made.tolist(), rows.acls_at(znodes["made"][made], tree), strict=True))
    written = np.flatnonzero(is_there & (wrote >= 0))
    written = written[np.argsort(wrote[written])]
    data: dict[int, bytes | None] = dict(zip(written.tolist(), rows.data_at(wrote[written]), strict=True))
    data.update(dict.fromkeys(written[~rows.has_data[wrote[written]]].tolist()))
    numbers = zip(*(znodes[name].tolist() for name in _FIELDS), strict=True)
    for place, (name, old, fields) in enumerate(zip(names, nodes, numbers, strict=True)):
        if old is not None:
            tree.forget(name)
            data.setdefault(place, old.data)
            acls.setdefault(place, old.acl)
        if is_there[place]:
            tree.put(name, Node(data[place], acls[place], *fields))
