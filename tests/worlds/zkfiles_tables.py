"""The rows of a log and a snapshot: those expected, made value by value from plain Python, those returned,
the bytes that are read for them, and what a verification comes to.

The expected rows share nothing with the columnar readers but the names of the columns.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.arrow import LOG, SNAPSHOT, Batch, acls_of
from zkgroup.zkfiles.files import FileBytes
from zkgroup.zkfiles.records import AclEntry, Operation, StoredZnode, Transaction, TransactionType
from zkgroup.zkfiles.verification import HistoryVerification

T = TransactionType
Row = dict[str, Any]
OPEN = writer.OPEN_ACL
BY_DIGEST = (AclEntry(31, "digest", "admin:x="), AclEntry(1, "world", "anyone"))
LIFETIMES = {T.CREATE_CONTAINER: "container", T.CREATE_TTL: "ttl"}


def single(kind: int, zxid: int, **fields: Any) -> Transaction:
    return Transaction(zxid, -(2**60), 3, 1000 + zxid, kind, (Operation(kind, **fields),))


def everything() -> list[Transaction]:
    """Ten of each kind of record that the kernel decodes."""
    made: list[Transaction] = []
    numbers = itertools.count((7 << 32) + 1)
    for turn in range(10):
        path = f"/a/b{turn}"
        creation: dict[str, Any] = {"path": path, "data": b"x" * turn, "acl": OPEN, "parent_cversion": turn}
        made += [
            single(T.CREATE, next(numbers), **creation),
            single(T.CREATE2, next(numbers), **creation | {"is_ephemeral": True, "acl": BY_DIGEST}),
            single(T.CREATE_CONTAINER, next(numbers), **creation | {"data": None}),
            single(T.CREATE_TTL, next(numbers), **creation | {"ttl_ms": 2**40 - 1, "acl": ()}),
            single(T.SET_DATA, next(numbers), path=path, data=b"B\0\0\0\0" * 3, version=turn),
            single(T.SET_DATA, next(numbers), path="/", data=None, version=-1),
            single(T.RECONFIG, next(numbers), path="/zookeeper/config", data=b"", version=1),
            single(T.SET_ACL, next(numbers), path=path, acl=BY_DIGEST, version=2),
            single(T.DELETE, next(numbers), path=path),
            single(T.DELETE_CONTAINER, next(numbers), path=f"/c{turn}"),
            single(T.ERROR, next(numbers), error=-101),
            Transaction(next(numbers), 5, 0, 9, T.CREATE_SESSION, timeout_ms=6000),
            Transaction(next(numbers), 5, 0, 9, T.CLOSE_SESSION, closed_paths=(path, "/a")),
            Transaction(next(numbers), 5, 1, 9, T.CLOSE_SESSION),
        ]
        inner = tuple(each.operations[0] for each in made[-14:-4])
        made.append(Transaction(next(numbers), 6, 2, 9, T.MULTI, inner))
        failed = (Operation(T.CHECK, "/a", version=3), *inner[:2], Operation(T.ERROR, error=-2))
        made.append(Transaction(next(numbers), 6, 2, 9, T.MULTI, failed))
        made.append(Transaction(next(numbers), 6, 2, 9, T.MULTI))
    return [
        each if each.type == T.ERROR or number % 3 else _with_digest(each, number)
        for number, each in enumerate(made)
    ]


def _with_digest(each: Transaction, number: int) -> Transaction:
    digest = writer.TreeDigest(2, 2**64 - 1 - number)
    return Transaction(
        each.zxid, each.session, each.cxid, each.time_ms, each.type, each.operations, each.timeout_ms,
        each.closed_paths, digest,
    )  # fmt: skip


IS_BUILT = find_spec("zkgroup.zkfiles.kernel") is not None and os.environ.get("ZKGROUP_KERNEL") != "off"
needs_kernel = pytest.mark.skipif(not IS_BUILT, reason="the kernel was not built, or is switched off")

WAYS = ("fast", "plain")
"""In which logs become columns: by the kernel, where it was built, or in plain Python."""


def use_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the readers take one record after the other, if the way is plain."""
    if way == "plain":
        monkeypatch.setenv("ZKGROUP_KERNEL", "off")


def values_of(batch: Batch, name: str) -> list[Any]:
    """A column in plain values, as `batch_of_lists` takes them."""
    array = batch.arrays[name]
    if name == "acl":
        acls = acls_of(array)
        return [acls[code] for code in array.indices.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def rows_of(batches: Iterable[Batch]) -> list[Row]:
    """All rows, with each value as Python's own type."""
    rows: list[Row] = []
    for batch in batches:
        columns = {column.name: values_of(batch, column.name) for column in batch.columns}
        assert {len(values) for values in columns.values()} <= {batch.rows}
        assert batch.rows > 0
        rows += [{name: columns[name][number] for name in columns} for number in range(batch.rows)]
    return rows


def log_rows(transactions: Iterable[Transaction], path: Path) -> Iterator[Row]:
    """The table of file-columns.md, row by row."""
    for each in transactions:
        common = {
            "zxid": each.zxid,
            "epoch": each.zxid >> 32,
            "session": each.session,
            "cxid": each.cxid,
            "time": each.time_ms,
            "applied": each.is_applied,
            "digest": None if each.digest is None else _signed(each.digest.value),
            "file": str(path),
            "offset": each.offset,
        }
        bare = dict.fromkeys(column.name for column in LOG)
        if each.type in (T.CREATE_SESSION, T.CLOSE_SESSION):
            op = "createSession" if each.type == T.CREATE_SESSION else "closeSession"
            own = {"sub": -1, "type": each.type, "op": op, "timeout_ms": each.timeout_ms}
            yield bare | common | own
            for sub, path_ in enumerate(each.closed_paths or ()):
                listed = {"sub": sub, "type": each.type, "op": "delete"}
                yield bare | common | listed | {"path": path_, "parent": parent(path_)}
            continue
        for sub, operation in enumerate(each.operations, 0 if each.type == T.MULTI else -1):
            yield (
                bare
                | common
                | {
                    "sub": sub,
                    "type": operation.type,
                    "op": op_name(operation.type),
                    "path": operation.path,
                    "parent": parent(operation.path),
                    "data": operation.data,
                    "version": operation.version,
                    "ephemeral": "session" if operation.is_ephemeral else LIFETIMES.get(T(operation.type)),
                    "ttl_ms": operation.ttl_ms,
                    "error": operation.error,
                    "parent_cversion": operation.parent_cversion,
                    "acl": operation.acl,
                }
            )


def op_name(kind: int) -> str:
    """The name of an operation, as in file-columns.md."""
    if kind in (1, 15, 19, 21):
        return "create"
    if kind in (2, 20):
        return "delete"
    return {5: "set", 16: "set", 7: "setACL", 13: "check", -1: "error"}[kind]


def parent(path: str | None) -> str | None:
    if path is None or path == "/" or "/" not in path:
        return None
    return path.rpartition("/")[0] or "/"


def snapshot_rows(
    znodes: Iterable[StoredZnode], path: Path, snap_zxid: int, end_zxid: int | None
) -> Iterator[Row]:
    for each in znodes:
        stat = each.stat._asdict()
        owner = stat.pop("ephemeral_owner")
        yield dict.fromkeys(column.name for column in SNAPSHOT) | {
            "snap_zxid": snap_zxid,
            "end_zxid": end_zxid,
            "path": each.path,
            "parent": parent(each.path),
            "name": each.path.rpartition("/")[2],
            "depth": len([part for part in each.path.split("/") if part]),
            "data": each.data,
            "acl": each.acl,
            **stat,
            "owner": owner,
            "kind": kind_of(owner),
            "data_length": len(each.data or b""),
            "file": str(path),
        }


def kind_of(owner: int) -> str:
    """The kind of a znode, from the bytes of its `ephemeralOwner`."""
    if owner == 0:
        return "persistent"
    raw = owner % 2**64
    if raw == 0x8000000000000000:
        return "container"
    return "ttl" if raw >> 40 == 0xFF0000 else "session"


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


Verdict = Literal["clean", "mismatch", "not_applicable"]


def digest_verdict(found: HistoryVerification) -> Verdict:
    """What the servers' digests alone say; never `clean` where there are none."""
    if found.mismatches:
        return "mismatch"
    return "clean" if found.digests_checked else "not_applicable"


def is_right(found: HistoryVerification) -> bool:
    """True if nothing was found wrong or missing."""
    return (
        found.first_bad_zxid is None
        and not found.holes
        and not found.damages
        and not found.splits
        and all(check.agrees is not False for check in found.snapshots)
    )


def outcome(source: Callable[[], Iterable[Any]]) -> tuple[list[Any], str]:
    """What is given, and the damage that is reported after it."""
    given: list[Any] = []
    try:
        for each in source():
            given.append(each)  # noqa: PERF402  what came before an error is wanted
    except DamagedFileError as error:
        return given, str(error)
    return given, ""


@contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    """Bytes read of each file, by its name; plain ones of a packed file."""
    counted: Counter[str] = Counter()
    read = FileBytes.read

    def noted(file: FileBytes, most: int) -> bytes:
        piece = read(file, most)
        counted[file.path.name] += len(piece)
        return piece

    with mock.patch.object(FileBytes, "read", noted):
        yield counted
