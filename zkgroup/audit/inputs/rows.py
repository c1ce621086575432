"""The table of rows that all inputs become: a numpy array or Arrow array for each field of `Event`.

Paths are codes of the list of different paths, ACLs codes of the list of different ACLs, so that what depends
on a path alone is computed once for each. Parquet and the batches of logs become such a table in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs import events
from zkgroup.audit.inputs.facts import Facts, facts_of, is_fact_path
from zkgroup.zkfiles.arrow import Column, ColumnType, acls_of, schema
from zkgroup.zkfiles.arrow import Flags as Flags
from zkgroup.zkfiles.arrow import Numbers as Numbers
from zkgroup.zkfiles.records import Acl, AclEntry, inside_path
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.paths import path_kind

ROWS_PER_PART: Final = 400_000
OP_CODES: Final[Mapping[Any, int]] = {op: code for code, op in enumerate(events.OPS)} | {None: -1}
LIFETIME_CODES: Final[Mapping[Any, int]] = {lifetime: code for code, lifetime in enumerate(events.LIFETIMES)}
_EVENTS_AT_A_TIME: Final = 1 << 15
_LARGEST: Final = 2_000_000_000
"""The bytes that an Arrow array with 32-bit offsets may hold."""


class Transactions(NamedTuple):
    """Arrays with a place for each transaction, by zxid; seeds are of none."""

    zxid: Numbers
    session: Numbers
    time_ms: Numbers
    opens: Flags
    """True for a transaction that opens its session."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows in the order of zxid and place. `path` and `acl` are codes of `paths` and `acls`."""

    zxid: Numbers
    sub: Numbers
    time_ms: Numbers
    session: Numbers
    cxid: Numbers
    op: Numbers
    """The codes of OPS."""
    path: Numbers
    data: Any
    """A pyarrow array of bytes."""
    version: Any
    """A pyarrow array of numbers, as are those of timeouts, errors and times of writing."""
    ephemeral: Numbers
    """The codes of LIFETIMES."""
    timeout_ms: Any
    error: Any
    applied: Flags
    seed: Flags
    synthetic: Flags
    acl: Numbers
    mtime_ms: Any
    paths: Sequence[str]
    acls: Sequence[Acl | None]
    transactions: Transactions | None = None
    """The transactions of all records, where rows are left out."""

    def __len__(self) -> int:
        return len(self.zxid)

    def take(self, rows: Numbers) -> Columns:
        """The rows with these numbers."""
        taken = {name: _taken(getattr(self, name), rows) for name in _FIELDS}
        return replace(self, **taken, transactions=None)

    def where(self, mask: Flags) -> Columns:
        """The rows in a mask."""
        return self.take(np.flatnonzero(mask))

    def events(self, rows: Numbers | None = None) -> Iterator[events.Event]:
        """Yields rows as objects, all or those with these numbers; some thousands are made at a time."""
        numbers = np.arange(len(self)) if rows is None else rows
        for start in range(0, len(numbers), _EVENTS_AT_A_TIME):
            some = self.take(numbers[start : start + _EVENTS_AT_A_TIME])
            lists: dict[str, Iterable[Any]] = {name: getattr(some, name).tolist() for name in _FIELDS}
            for name, values in self.coded.items():
                lists[name] = map(values.__getitem__, lists[name])
            yield from map(events.Event._make, zip(*lists.values(), strict=True))

    @property
    def coded(self) -> dict[str, Sequence[Any]]:
        """The values of each column of codes, by its name."""
        return {"op": events.OPS, "path": self.paths, "ephemeral": events.LIFETIMES, "acl": self.acls}


_FIELDS: Final = tuple(
    each.name for each in fields(Columns) if each.name not in ("paths", "acls", "transactions")
)
"""The fields of `Event`, in its order."""
_INTEGERS: Final = ("zxid", "sub", "time_ms", "session", "cxid")
_FLAGS: Final = ("applied", "seed", "synthetic")
_NULLABLE: Final = ("version", "timeout_ms", "error", "mtime_ms")
_CODES: Final = {"op": OP_CODES, "ephemeral": LIFETIME_CODES}
_TYPES: Final = {
    **dict.fromkeys(_INTEGERS, np.int64),
    **dict.fromkeys(_FLAGS, np.bool_),
    **dict.fromkeys(_CODES, np.int8),
    "acl": np.int32,
}
_PATHS: Final = pa.dictionary(pa.int32(), pa.string())


def _taken(column: Any, rows: Numbers) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


class ColumnsBuilder:
    """Takes parts of a history in order; `columns` returns them as one."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Any]] = {name: [] for name in _FIELDS}
        self._acls: dict[Acl | None, int] = {None: 0}

    def add_events(self, given: Iterable[events.Event]) -> None:
        """Adds rows that are objects; some thousands of them are in memory at a time."""
        rows = iter(given)
        while some := list(islice(rows, _EVENTS_AT_A_TIME)):
            lists = dict(zip(_FIELDS, zip(*some, strict=True), strict=True))
            acls = self.acl_codes(lists.pop("acl"))
            part = {name: pa.array(values, _SCHEMA.field(name).type) for name, values in lists.items()}
            self.add({**part, "acl": acls})

    def add(self, part: Mapping[str, Any]) -> None:
        """Adds columns by the names of `Event`: Arrow arrays, or numpy arrays, which stay as they are."""
        for name in _FIELDS:
            column = part[name]
            is_done = isinstance(column, np.ndarray)
            self._parts[name].append(column if is_done else self._converted(name, column))

    def add_operations(self, part: Mapping[str, Any], time_ms: Numbers) -> None:
        """Adds columns by the names of OPERATION_COLUMNS, without times and unknown types of operations."""
        ops = part["op"] if isinstance(part["op"], np.ndarray) else codes_of(part["op"], OP_CODES)
        version = _whole(part["version"]).cast(pa.int64())
        no = np.zeros(len(ops), np.bool_)
        rows = {
            **part,
            "time_ms": time_ms,
            "op": ops,
            "version": pc.if_else(pa.array(ops == events.CREATE), pa.scalar(0, pa.int64()), version),
            "seed": no,
            "synthetic": no,
            "mtime_ms": pa.nulls(len(ops), pa.int64()),
        }
        if (ops < 0).any():
            known = np.flatnonzero(ops >= 0)
            rows = {name: _taken(rows[name], known) for name in _FIELDS}
        self.add(rows)

    def add_columns(self, columns: Columns) -> None:
        """Adds rows that are columns already."""
        part = {name: getattr(columns, name) for name in _FIELDS}
        paths = pa.array(columns.paths, pa.string())
        part["path"] = pa.DictionaryArray.from_arrays(pa.array(columns.path, pa.int32()), paths)
        part["acl"] = self.acl_codes(columns.acls)[columns.acl]
        self.add(part)

    def acl_codes(self, acls: Iterable[Acl | None]) -> Numbers:
        """The codes of ACLs; new ACLs get new codes."""
        known = self._acls
        return np.array([known.setdefault(acl, len(known)) for acl in acls], np.int32)

    def columns(self) -> Columns:
        """All parts as one. Paths become codes."""
        parts, self._parts = self._parts, {}
        path = pa.chunked_array(parts.pop("path"), _PATHS).unify_dictionaries().combine_chunks()
        codes, paths = path.indices.to_numpy(zero_copy_only=False), path.dictionary.to_pylist()
        whole = {name: _joined(name, parts.pop(name)) for name in list(parts)}
        return Columns(path=codes, paths=paths, acls=list(self._acls), **whole)

    def _converted(self, name: str, column: Any) -> Any:
        """An Arrow array as `Columns` has it; paths become an array with a dictionary."""
        if name in _CODES:
            return codes_of(column, _CODES[name])
        array = _whole(column)
        if name in _INTEGERS:
            return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        if name in _FLAGS:
            return array.to_numpy(zero_copy_only=False).astype(np.bool_)
        if name == "acl":
            return self._codes_of_acls(array)
        if name == "path":
            return _paths(column)
        return array.cast(pa.int64()) if name in _NULLABLE else array

    def _codes_of_acls(self, column: Any) -> Numbers:
        """The codes of ACLs. Few differ, so they become texts, and one of each is decoded."""
        if pa.types.is_dictionary(column.type):
            of_values: Numbers = self.acl_codes(acls_of(column))[column.indices.to_numpy()]
            return of_values
        codes: Numbers = np.zeros(len(column), np.int32)
        places = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if not len(places):
            return codes
        given = column.take(pa.array(places))
        scheme, id_ = (given.values.field(name) for name in ("scheme", "id"))
        numbers = (given.values.field("perms"), pc.binary_length(scheme), pc.binary_length(id_))
        entries = pc.binary_join_element_wise(*(each.cast(pa.string()) for each in numbers), scheme, id_, ":")
        texts = pc.binary_join(pa.ListArray.from_arrays(given.offsets, entries), "")
        different = texts.dictionary_encode().indices.to_numpy()
        first = given.take(pa.array(first_places(different))).to_pylist()
        known = self.acl_codes(tuple(AclEntry(**each) for each in acl) for acl in first)
        codes[places] = known[different]
        return codes


def columns_of(given: Iterable[events.Event]) -> Columns:
    """Rows that are objects as columns."""
    builder = ColumnsBuilder()
    builder.add_events(given)
    return builder.columns()


def _joined(name: str, parts: Sequence[Any]) -> Any:
    if name in _TYPES:
        return np.concatenate([np.zeros(0, _TYPES[name]), *parts])
    type_ = pa.int64() if name in _NULLABLE else pa.binary()
    if name == "data" and sum(part.nbytes for part in parts) > _LARGEST:
        type_ = pa.large_binary()
    return pa.concat_arrays([pa.array([], type_), *(part.cast(type_) for part in parts)])


def _whole(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _encoded(column: Any) -> Any:
    if not pa.types.is_dictionary(column.type):
        return _whole(column).dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries()
    return _whole(column)


def codes_of(column: Any, codes: Mapping[Any, int]) -> Numbers:
    """A column of few different texts as their codes."""
    array = _encoded(column)
    values = array.dictionary.to_pylist()
    known = np.array([*(codes[value] for value in values), codes.get(None, -1)], np.int8)
    found: Numbers = known[pc.fill_null(array.indices, len(values)).to_numpy(zero_copy_only=False)]
    return found


def _paths(column: Any) -> Any:
    """Codes of paths; a row without a path has the empty one."""
    array = _encoded(column)
    names, indices = array.dictionary.cast(pa.string()), array.indices.cast(pa.int32())
    if array.null_count:
        empty = pc.index(names, "").as_py()
        if empty < 0:
            names, empty = pa.concat_arrays([names, pa.array([""])]), len(names)
        indices = pc.fill_null(indices, pa.scalar(empty, pa.int32()))
    return pa.DictionaryArray.from_arrays(indices, names)


OPERATION_COLUMNS: Final = (
    *("zxid", "sub", "session", "cxid", "time", "op", "path", "data", "version", "ephemeral"),
    *("timeout_ms", "error", "acl", "applied"),
)
"""The columns of operations that are read."""
AS_CODES: Final = ("op", "path", "ephemeral")
"""Columns with few different values, which Parquet is to give as codes."""
_COLUMN_TYPES: Final[Mapping[str, ColumnType]] = {
    **dict.fromkeys(("zxid", "time_ms", "session", "mtime_ms"), "long"),
    **dict.fromkeys(_FLAGS, "boolean"),
    **dict.fromkeys(AS_CODES, "string"),
    "data": "binary",
    "acl": "acl",
}
"""The others are `int`."""
_MAY_BE_NULL: Final = (*_NULLABLE, "data", "ephemeral", "acl")
ROWS: Final[tuple[Column, ...]] = tuple(
    Column(
        name,
        _COLUMN_TYPES.get(name, "int"),
        name in _MAY_BE_NULL,
        "As `zkgroup.audit.inputs.events.Event` has it.",
    )
    for name in _FIELDS
)
"""The table of rows of the audit."""
_SCHEMA: Final = schema(ROWS)


def columns_of_operations(table: Any) -> Columns:
    """Rows of a table with OPERATION_COLUMNS, in its order. Operations that no version knows are left out."""
    builder = ColumnsBuilder()
    part = {name: table[name] for name in OPERATION_COLUMNS}
    builder.add_operations(part, _whole(part.pop("time")).cast(pa.int64()).to_numpy() // 1000)
    return builder.columns()


def columns_of_rows(table: Any) -> Columns:
    """Rows of a table with the columns of ROWS, in its order."""
    builder = ColumnsBuilder()
    builder.add({name: table[name] for name in _FIELDS})
    return builder.columns()


def table_of(columns: Columns) -> Any:
    """Rows as a pyarrow.Table with the columns of ROWS."""
    acls = [None if acl is None else [each._asdict() for each in acl] for acl in columns.acls]
    values = {**columns.coded, "acl": acls}
    arrays = []
    for field in _SCHEMA:
        column = getattr(columns, field.name)
        array = pa.array(column) if isinstance(column, np.ndarray) else column
        if field.name in values:
            array = pa.array(values[field.name], field.type).take(array)
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def joined(parts: Sequence[Columns]) -> Columns:
    """Rows of several parts, one behind the other."""
    some = [part for part in parts if len(part)]
    if len(some) == 1:
        return some[0]
    builder = ColumnsBuilder()
    for part in some:
        builder.add_columns(part)
    return builder.columns()


def in_order(columns: Columns) -> Columns:
    """The rows by zxid and place."""
    zxid, sub = columns.zxid, columns.sub
    is_later = (zxid[1:] > zxid[:-1]) | ((zxid[1:] == zxid[:-1]) & (sub[1:] >= sub[:-1]))
    return columns if is_later.all() else columns.take(np.lexsort((sub, zxid)))


def first_places(values: Numbers) -> Numbers:
    """The first place of each different value, in order."""
    codes = pa.array(values).dictionary_encode().indices.to_numpy()
    known = np.append([-1], np.maximum.accumulate(codes)[:-1])[: len(codes)]
    return np.flatnonzero(codes > known)


def last_places(values: Numbers) -> Numbers:
    """The last place of each different value."""
    encoded = pa.array(values).dictionary_encode()
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[encoded.indices.to_numpy()] = np.arange(len(values))
    return last


def stable_order(codes: Numbers) -> Numbers:
    """The numbers of rows by code, rows of one code in their order; few codes are sorted by their digits."""
    few = codes.astype(np.uint16) if len(codes) and codes.min() >= 0 and codes.max() < 1 << 16 else codes
    return np.argsort(few, kind="stable")


def last_of_paths(size: int, paths: Numbers, mask: Flags) -> Numbers:
    """The last place of each path in a mask; -1 for none."""
    last, places = np.full(size, -1), np.flatnonzero(mask)
    last[paths[places]] = places
    return last


def transactions_of(columns: Columns) -> Transactions:
    """The transactions of all rows, also of rows that are left out."""
    if columns.transactions is not None:
        return columns.transactions
    logged = np.flatnonzero(~columns.seed)
    zxid, session = columns.zxid[logged], columns.session[logged]
    begins = np.ones(len(logged), np.bool_)
    begins[1:] = (zxid[1:] != zxid[:-1]) | (session[1:] != session[:-1])
    rows = logged[begins]
    return Transactions(
        columns.zxid[rows],
        columns.session[rows],
        columns.time_ms[rows],
        columns.op[rows] == events.CREATE_SESSION,
    )


def inside(columns: Columns, chroot: str) -> Columns:
    """Rows with the paths that clients of a chroot see; others are left out, those without a path stay."""
    if not chroot:
        return columns
    seen = [inside_path(path, chroot) for path in columns.paths]
    is_there = np.array([path is not None for path in seen], np.bool_)
    is_root = np.array([path == "/" for path in seen], np.bool_)
    kept = is_there[columns.path] & ~(is_root[columns.path] & columns.seed)
    return replace(columns.where(kept), paths=[path or "" for path in seen])


def between(columns: Columns, after_zxid: int, to_zxid: int | None) -> Columns:
    """The rows of the transactions behind one zxid, up to another."""
    kept: Flags = columns.zxid > after_zxid
    if to_zxid is not None:
        kept &= columns.zxid <= to_zxid
    return columns if kept.all() else columns.where(kept)


def compact(columns: Columns) -> Columns:
    """The same rows without the paths that none of them has."""
    used, path = np.unique(columns.path, return_inverse=True)
    return replace(columns, path=path.astype(np.int32), paths=[columns.paths[code] for code in used.tolist()])


def apart(columns: Columns) -> tuple[Columns, Columns]:
    """The seeds of a history, and its rows."""
    return columns.where(columns.seed), columns.where(~columns.seed)


def closes_in(columns: Columns) -> Columns:
    """The ends of sessions."""
    return columns.where(columns.op == events.CLOSE_SESSION)


def of_group(columns: Columns, group: str) -> Columns:
    """The rows without those of other groups."""
    places = [path_kind(path) for path in columns.paths]
    kept = np.array([not events.is_of_groups(place) or place.name == group for place in places], np.bool_)
    return columns.where(kept[columns.path])


def behind(columns: Columns, zxid: int) -> Columns:
    """The rows behind a transaction, on what stood then."""
    is_before = columns.seed | (columns.zxid <= zxid)
    return joined([state_of(columns.where(is_before)), columns.where(~is_before)])


def state_of(columns: Columns) -> Columns:
    """The state behind rows, as seeds of what follows: the open sessions, and the znodes."""
    op, size = columns.op, len(columns.paths)

    def last(*ops: int) -> Numbers:
        return last_of_paths(size, columns.path, columns.applied & np.isin(op, ops))

    made = last(events.CREATE, events.DELETE)
    is_there = (made >= 0) & (op[made] == events.CREATE) & ~np.isin(np.array(columns.paths), ("", "/"))
    znodes = made[is_there]
    data, rights = (np.maximum(each[is_there], znodes) for each in (last(events.SET), last(events.SET_ACL)))
    of_sessions = np.flatnonzero((op == events.CREATE_SESSION) | (op == events.CLOSE_SESSION))
    of_sessions = of_sessions[last_places(columns.session[of_sessions])]
    sessions = of_sessions[op[of_sessions] == events.CREATE_SESSION]

    seeds = columns.take(np.concatenate((sessions, znodes)))
    data, rights = (np.concatenate((sessions, each)) for each in (data, rights))
    is_znode = np.arange(len(seeds)) >= len(sessions)
    own_ms = pc.coalesce(seeds.mtime_ms, pa.array(seeds.time_ms))
    was_set = op[data] == events.SET
    mtime_ms = pc.if_else(pa.array(was_set), pa.array(columns.time_ms[data]), own_ms)
    return sorted_seeds(
        replace(
            seeds,
            zxid=seeds.zxid * is_znode,
            sub=np.full(len(seeds), events.SINGLE),
            time_ms=seeds.time_ms * is_znode,
            session=np.where(is_znode & (seeds.ephemeral != events.OF_SESSION), 0, seeds.session),
            cxid=np.zeros(len(seeds), np.int64),
            data=columns.data.take(pa.array(data)),
            version=columns.version.take(pa.array(data)),
            seed=np.ones(len(seeds), np.bool_),
            acl=columns.acl[rights],
            mtime_ms=pc.if_else(pa.array(is_znode), mtime_ms, pa.scalar(None, pa.int64())),
        )
    )


def sorted_seeds(seeds: Columns) -> Columns:
    """The seeds in the order in which a history begins with them: by zxid, path and session."""
    by_path = sorted(range(len(seeds.paths)), key=seeds.paths.__getitem__)
    rank = np.argsort(np.array(by_path, np.int64))
    return seeds.take(np.lexsort((seeds.session, rank[seeds.path], seeds.zxid)))


def facts_in(columns: Columns) -> Facts:
    """The facts of a history: of its rows only those are made objects that change them."""
    return facts_of(columns.events(fact_rows(columns)))


def fact_rows(columns: Columns) -> Numbers:
    """The rows that make the facts: those that change them, each session's first one, and the ends.

    Of a history in parts the facts are those of these rows of all parts.
    """
    if not len(columns):
        return np.zeros(0, np.int64)
    matters: Flags = columns.applied & np.array([*map(is_fact_path, columns.paths)], np.bool_)[columns.path]
    matters |= (columns.op == events.CREATE_SESSION) | (columns.op == events.CLOSE_SESSION)
    matters[first_places(columns.session)] = True
    for seed in (False, True):
        of_kind = np.flatnonzero(columns.seed == seed)
        matters[of_kind[:1]] = True
    written_ms = columns.mtime_ms.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    for ends in (columns.zxid, columns.time_ms, written_ms):
        matters[int(np.argmax(ends))] = True
    return np.flatnonzero(matters)


def groups_of_paths(paths: Sequence[str] | pa.Array, chroot: str = "") -> tuple[list[str], Numbers]:
    """The names of groups, and for each path the place of its group there; -1 for one of no group.

    A path is of a group where it is below `/consumers/<group>` as clients of the chroot see it, or is that.
    """
    texts, below = pa.array(paths, pa.string()), f"{chroot}{consumers_path()}/"
    is_of_group = pc.starts_with(texts, below)
    names = pc.utf8_slice_codeunits(texts.filter(is_of_group), len(below))
    groups = pc.list_element(pc.split_pattern(names, "/", max_splits=1), 0).dictionary_encode()
    codes: Numbers = np.full(len(paths), -1)
    codes[is_of_group.to_numpy(zero_copy_only=False)] = groups.indices.to_numpy()
    return groups.dictionary.to_pylist(), codes
