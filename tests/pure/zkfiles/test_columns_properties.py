"""Whatever a log holds, the kernel and plain Python make the same columns of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.worlds import zkfiles_writer as writer
from tests.worlds.zkfiles_tables import WAYS, log_rows, rows_of, use_way
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.jute import find, whole_records
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.records import AclEntry, Operation, Transaction, TransactionType

T = TransactionType
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
NAMES = st.one_of(
    st.sampled_from("abz"), st.text(st.characters(codec="utf-8", exclude_characters="/"), max_size=4)
)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "/" + "/".join(names))
PLAIN_PATHS = st.lists(st.sampled_from(["a", "bc", "topic-1"]), max_size=4).map(
    lambda names: "/" + "/".join(names)
)
DATA = st.one_of(st.none(), st.binary(max_size=20), st.just(b"B\0\0\0\0\0\0\0\0\0\0\0/"))
ACLS = st.one_of(
    st.just(writer.OPEN_ACL),
    st.lists(
        st.builds(AclEntry, INT, st.sampled_from(["ip", "digest"]), st.text(max_size=5)), max_size=3
    ).map(tuple),
)


def operations(paths: st.SearchStrategy[str]) -> st.SearchStrategy[Operation]:
    """Of every type, as a server writes them or could."""

    def of(kind: int, **fields: Any) -> st.SearchStrategy[Operation]:
        return st.fixed_dictionaries(fields).map(lambda each: Operation(kind, **each))

    creation: dict[str, Any] = {"path": paths, "data": DATA, "acl": ACLS, "parent_cversion": INT}
    return st.one_of(
        of(T.SET_DATA, path=paths, data=DATA, version=INT),
        of(T.CREATE, **creation, is_ephemeral=st.booleans()),
        of(T.CREATE2, **creation, is_ephemeral=st.booleans()),
        of(T.CREATE_CONTAINER, **creation),
        of(T.CREATE_TTL, **creation, ttl_ms=LONG),
        of(T.DELETE, path=paths),
        of(T.DELETE_CONTAINER, path=paths),
        of(T.RECONFIG, path=paths, data=DATA, version=INT),
        of(T.SET_ACL, path=paths, acl=ACLS, version=INT),
        of(T.CHECK, path=paths, version=INT),
        of(T.ERROR, error=INT),
    )


def transactions(paths: st.SearchStrategy[str]) -> st.SearchStrategy[Transaction]:
    """Single ones, multis, sessions; with and without a digest."""
    digests = st.one_of(st.none(), st.builds(writer.TreeDigest, st.just(2), st.integers(0, 2**64 - 1)))
    common: dict[str, Any] = {
        "zxid": st.integers(1, 2**40), "session": LONG, "cxid": INT, "time_ms": LONG, "digest": digests,
    }  # fmt: skip
    many = st.lists(operations(paths), max_size=6).map(tuple)
    listed = st.one_of(st.none(), st.lists(paths, max_size=3).map(tuple))

    def of(fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Transaction]:
        return st.fixed_dictionaries({**common, **fields}).map(lambda each: Transaction(**each))

    return st.one_of(
        operations(paths).flatmap(
            lambda each: of({"type": st.just(each.type), "operations": st.just((each,))})
        ),
        of({"type": st.just(int(T.MULTI)), "operations": many}),
        of({"type": st.just(int(T.CREATE_SESSION)), "timeout_ms": INT}),
        of({"type": st.just(int(T.CLOSE_SESSION)), "closed_paths": listed}),
    )


def logs() -> st.SearchStrategy[list[Transaction]]:
    """All plain, so that the kernel takes them, or with anything in them."""
    return st.one_of(
        st.lists(transactions(PLAIN_PATHS), min_size=1, max_size=25),
        st.lists(transactions(PATHS), min_size=1, max_size=25),
    )


@given(logs(), st.integers(0, 2**40), st.integers(0, 2**40), st.sampled_from([None, "/", "/a", "/bc/"]))
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_way_gives_what_the_plain_values_say(
    tmp_path: Path, written: list[Transaction], one: int, other: int, prefix: str | None
) -> None:
    """All columns, and a choice of rows."""
    path = writer.write_log(tmp_path, written)
    transactions_ = sorted(written, key=lambda each: each.zxid)
    path.write_bytes(writer.log(transactions_))
    expected = list(log_rows(LogReader(path), path))
    low, high = min(one, other), max(one, other)
    chosen = [
        row
        for row in expected
        if low <= row["zxid"] <= high
        and (prefix is None or (row["path"] is not None and row["path"].startswith(prefix)))
    ]
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            use_way(way, patch)
            assert rows_of(log_columns(path)) == expected
            found = rows_of(
                log_columns(path, from_zxid=low, to_zxid=high, path_prefix=prefix, rows_per_batch=3)
            )
            assert found == chosen


@given(logs(), st.randoms(use_true_random=False), st.integers(0, 5))
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_all_find_the_records_that_hopping_finds(
    written: list[Transaction], pick: random.Random, changes: int
) -> None:
    """In bytes that were changed, cut off, or joined with zeros too."""
    raw = bytearray(writer.log(written))
    for _ in range(changes):
        raw[pick.randrange(16, len(raw))] = pick.choice([0, 0x42, 0xFF, pick.randrange(256)])
    data = bytes(raw[: pick.randrange(len(raw) // 2, len(raw) + 1)]) + bytes(pick.choice([0, 3, 200]))
    for way in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            use_way(way, patch)
            starts, ends, needed = find(data, 16)
        assert ([*starts], [*ends], needed) == whole_records(data, 16)
